// sm_80: everything that touches the hardware: what GPU targets share, and what replaces a copy engine and wgmma.
#pragma once

#include "kittens/target/gpu/registers.cuh"
#include "kittens/target/gpu/memory.cuh"
#include "kittens/target/gpu/queue.cuh"
#include "kittens/target/gpu/lines.cuh"
#include "kittens/target/sm_80/sync.cuh"
#include "kittens/target/gpu/exchange.cuh"
#include "kittens/target/sm_80/async.cuh"
#include "kittens/target/sm_80/mma.cuh"
#include "kittens/target/gpu/launch.cuh"
#include "kittens/target/gpu/ranks.cuh"
