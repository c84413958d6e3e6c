// Where the decays a and the weights w of a chunk's steps come from: a warp reads them for each head and makes factors
// of them while the consumers multiply.
#pragma once

#include "kittens.cuh"

#include "linear_attention.h"

namespace tk::linear_attention {

using namespace kittens;

inline constexpr int chunk = decay_steps;
// A decay to less than the smallest fp32 number forgets everything. Smaller ones would only cost the sums their digits.
inline constexpr float least = -150.f;

using steps = rv_fl<chunk>;  // one value for each step of a chunk

using skip_weights = gl<float, 1, 1, dynamic, dynamic>;  // (head, 1 or column)

template <typename T> using of_heads = gl<T, dynamic, 1, dynamic, dynamic>;  // (batch, 1, row, head)

struct decay_source {
    decays::source from;
    int rows;
    const float *rate, *bias;
    bool softplus, dt_is_bf16;
    gl<float, dynamic, dynamic, 1, dynamic> log_decay;  // (batch, head, 1, row)
    of_heads<float> dt32;
    of_heads<bf16> dt16;

    // What lies in memory for the 64 steps from `row` on; zeros past the end. It is asked for some chunks ahead.
    kittens_device void fetch(steps& given, int batch, int head, int row) const {
        fetch(given, batch, head, row, row + 4 * chunk);
    }
    kittens_device void fetch(steps& given, int batch, int head, int row, int later) const {
        const auto column = [&](const auto& dt) {
            load_column(given, dt, element_coord{batch, 0, row, head});
            prefetch_column<chunk>(dt, element_coord{batch, 0, later, head});
        };
        if (from == decays::per_step) {
            load(given, log_decay, element_coord{batch, head, 0, row});
            prefetch_row<chunk>(log_decay, element_coord{batch, head, 0, later});
        } else if (from == decays::from_dt && dt_is_bf16) column(dt16);
        else if (from == decays::from_dt) column(dt32);
    }

    // a in base 2, zero past the end, and log2(w).
    kittens_device void evaluate(steps& a, steps& log_weight, const steps& given, int head, int row) const {
        zero(log_weight);
        if (from == decays::none) {
            zero(a);
        } else if (from == decays::per_step) {
            mul(a, given, log2_e);
        } else if (from == decays::per_head) {
            fill(a, rate[head] * log2_e);
        } else {
            const float shift = bias ? bias[head] : 0.f;
            const bool smooth = softplus;
            map(a, given, [=](float dt) {
                const float x = dt + shift;
                if (smooth) return x > 20.f ? x : math::log1p(math::exp(x));
                return x < 0.f ? 0.f : x;
            });
            log2(log_weight, a);
            mul(a, a, rate[head] * log2_e);
        }
        const int left = rows - row;
        each([=](int i, float& x) { x = i >= left ? 0.f : x < least ? least : x; }, a);
    }
};

}  // namespace tk::linear_attention
