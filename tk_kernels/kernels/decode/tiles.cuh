// Rows of the largest tile of grouped heads that a target has a kernel for.
//
// Two warpgroups that multiply need more registers at head dim 128 than the 168 that a thread of their block can have.
// Where registers move between warpgroups the loader's go to them. Where they do not (sm_80) 364 bytes were spilled,
// and more than 64 rows are several tiles.
#pragma once

#include "kittens.cuh"

#include "layout.h"

namespace tk::decode_plan {

constexpr int gqa_most_rows_per_tile = kittens::limits::moves_registers ? gqa_many_rows_per_tile : gqa_rows_per_tile;

}  // namespace tk::decode_plan
