// cpu: everything that a GPU would do.
#pragma once

#include "kittens/target/cpu/registers.cuh"
#include "kittens/target/cpu/memory.cuh"
#include "kittens/target/cpu/sync.cuh"
#include "kittens/target/cpu/queue.cuh"
#include "kittens/target/cpu/exchange.cuh"
#include "kittens/target/cpu/lines.cuh"
#include "kittens/target/cpu/async.cuh"
#include "kittens/target/cpu/neighbours.cuh"
#include "kittens/target/cpu/mma.cuh"
#include "kittens/target/cpu/launch.cuh"
#include "kittens/target/cpu/ranks.cuh"
