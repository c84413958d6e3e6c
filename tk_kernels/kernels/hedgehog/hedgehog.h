// The host interface of Hedgehog: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

#include "tk/tensor.h"

namespace tk::hedgehog {

using tk::tensor;

struct problem {
    std::int64_t batch, heads, rows;
};

// What belongs to a head: dense maps (heads, 128, 64) in bf16, and the two parts' weights (heads,) in fp32.
struct head_weights {
    void *q_map, *k_map;
    const float *alpha, *beta;
};

// Dense fp32 states after the last complete block but one, or none: k (batch, heads, 128), kv (batch, heads, 128, 128).
struct states {
    float *k, *kv;
};

// Parts into which each sequence is cut, so that few sequences keep the GPU busy: `wanted` of them, or by shape if
// `wanted` is negative. Throws std::invalid_argument where it is neither negative nor from 1 to 64.
int segments(const problem&, int wanted);

// fp32 elements of scratch for so many segments; they need not be initialised.
inline std::int64_t scratch_elements(const problem& p, int segments) {
    constexpr std::int64_t of_state = 128 * (128 + 1);
    return p.batch * p.heads * (segments - 1) * of_state;
}

// Throws std::invalid_argument for problems that no kernel is built for.
void forward(const problem&, const tensor& q, const tensor& k, const tensor& v, const tensor& out, const head_weights&,
             const states&, int segments, float* scratch, void* stream);

}  // namespace tk::hedgehog
