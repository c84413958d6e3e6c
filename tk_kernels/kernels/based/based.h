// The host interface of Based: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

#include "tk/tensor.h"

namespace tk::based {

using tk::tensor;

// o_i = sum_{j <= i} w_ij v_j, w = 1 + s + s^2 / 2, s = q_i.k_j / 4; q and k have 16 columns, v has 64. normalize:
// divided by sum_j w_ij + 1e-6.
struct problem {
    std::int64_t batch, heads, rows;
    bool normalize;
};

// How a problem is run: into how many segments each sequence is cut, 0: chosen by shape.
struct options {
    int segments = 0;
};

// The state as the kernels keep it, fp32, for each head of each batch: `features` x 64 sums of features of k times v,
// and, from normalize alone, 64 x 16 sums of the last 64 features times k. README.md has the order of the features.
constexpr int features = 192, value_dim = 64, feature_dim = 16, pair_rows = 64;
constexpr std::int64_t state_elements = features * value_dim, pair_elements = pair_rows * feature_dim;

// The most segments that a sequence is cut into, and how many it is cut into.
constexpr int most_segments = 64;
int segments(const problem&, const options&);

// state and pairs may be null: nothing is returned of them. `scratch` holds batch * heads * (segments - 1) *
// (state_elements + pair_elements) floats; it need not be initialised.
// Throws std::invalid_argument for options or problems that no kernel is built for.
void launch(const problem&, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* state,
            float* pairs, float* scratch, const options&, void* stream);

}  // namespace tk::based
