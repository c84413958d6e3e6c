// Hedgehog by warps, on the operands of hedgehog.cu.
#include "hedgehog/by_warps.cu"

#include "driver.h"
#include "hedgehog.h"
