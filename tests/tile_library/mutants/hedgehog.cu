// Hedgehog by warpgroups with roles: three heads in three segments each, so that there are states to hand on and blocks
// with several tasks; a tail of rows.
#include "hedgehog/hedgehog.cu"

#include "driver.h"
#include "hedgehog.h"
