// sm_90a: everything that touches the hardware: what GPU targets share, and what is Hopper's.
#pragma once

#include "kittens/target/gpu/registers.cuh"
#include "kittens/target/gpu/memory.cuh"
#include "kittens/target/gpu/queue.cuh"
#include "kittens/target/gpu/lines.cuh"
#include "kittens/target/sm_90a/sync.cuh"
#include "kittens/target/gpu/exchange.cuh"
#include "kittens/target/sm_90a/async.cuh"
#include "kittens/target/sm_90a/neighbours.cuh"
#include "kittens/target/sm_90a/mma.cuh"
#include "kittens/target/gpu/launch.cuh"
#include "kittens/target/gpu/ranks.cuh"
