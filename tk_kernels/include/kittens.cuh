// kittens: tiles of 16x16 for a warp, pipelines for a block, task orders and programs for a grid.
//
// One kernel source compiles for every target; the target is the folder that the include path names
// (`-I kittens/target/sm_90a` or `-I kittens/target/cpu`), never an `#if`. See docs/tile_library.md.
#pragma once

#include <kittens_base.cuh>  // target: macros, scalar types, call sites, who am I

#include "kittens/types/shared.cuh"
#include "kittens/types/global.cuh"

#include <kittens_target.cuh>  // target: registers, memory, matrix multiply, asynchrony, launch

#include "kittens/ops/moves.cuh"
#include "kittens/ops/multiply.cuh"
#include "kittens/ops/maps.cuh"
#include "kittens/ops/reductions.cuh"
#include "kittens/ops/softmax.cuh"
#include "kittens/ops/masks.cuh"
#include "kittens/ops/transposed.cuh"
#include "kittens/ops/through.cuh"
#include "kittens/ops/second_order.cuh"
#include "kittens/ops/decays.cuh"
#include "kittens/ops/complex.cuh"
#include "kittens/ops/butterflies.cuh"
#include "kittens/ops/lines.cuh"
#include "kittens/ops/random.cuh"
#include "kittens/grid/order.cuh"
#include "kittens/grid/persistent.cuh"
#include "kittens/grid/task_queue.cuh"
#include "kittens/grid/resident.cuh"
#include "kittens/grid/segments.cuh"
#include "kittens/ranks/peers.cuh"
#include "kittens/pipeline/ring.cuh"
#include "kittens/pipeline/block_roles.cuh"
#include "kittens/pipeline/task_feed.cuh"
#include "kittens/pipeline/turns.cuh"
#include "kittens/pipeline/lcf.cuh"
#include "kittens/pipeline/lcsf.cuh"
#include "kittens/program/queue.cuh"
#include "kittens/program/recorder.cuh"
#include "kittens/program/interpreter.cuh"
