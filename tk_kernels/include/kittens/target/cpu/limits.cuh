// cpu: the numbers of the machine that is imitated, a Hopper GPU: what is checked is what runs there.
#pragma once

#include "kittens/target/sm_90a/limits.cuh"
