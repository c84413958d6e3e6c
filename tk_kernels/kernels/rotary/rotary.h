// The host interface of the rotary embedding: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

#include "tk/tensor.h"

namespace tk::rotary {

using heads = tk::tensor;  // (B, H, N, D) in memory, heads and rows in either order
struct table {
    const void* data;  // (N, rotary_dim / 2)
    std::int64_t stride;
};

struct problem {
    heads out, x;  // they may be the same
    table cosine, sine;
    std::int64_t B, H, N;
    int D;           // 64 or 128
    int rotary_dim;  // a multiple of 16 up to D: the entries that are rotated, the first ones
    bool interleaved, conjugate;
    bool table_float;  // cosines and sines are fp32, else bf16
};

// out = x with its rows rotated, half-split or, interleaved, pair by pair; with `conjugate` by the opposite angles. Row
// n has the angles of row n of cosine and sine.
// `stream` is a cudaStream_t (ignored by the cpu target).
void launch(const problem&, void* stream);

}  // namespace tk::rotary
