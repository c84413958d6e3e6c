// sm_90a: everything that touches the hardware.
#pragma once

#include "kittens/target/sm_90a/registers.cuh"
#include "kittens/target/sm_90a/memory.cuh"
#include "kittens/target/sm_90a/sync.cuh"
#include "kittens/target/sm_90a/lines.cuh"
#include "kittens/target/sm_90a/async.cuh"
#include "kittens/target/sm_90a/mma.cuh"
#include "kittens/target/sm_90a/launch.cuh"
