// What a chunk of 64 steps needs to know of the decays a and the weights w, as base-2 logarithms: computed once for each
// head by the warp that prepares a stage, while the consumers multiply.
#pragma once

#include "kittens.cuh"

#include "linear_attention.h"

namespace tk::linear_attention {

using namespace kittens;

inline constexpr int chunk = 64;
inline constexpr float log2_e = 1.4426950408889634f;
// A decay to less than the smallest fp32 number forgets everything. Smaller ones would only cost the sums their digits.
inline constexpr float least = -150.f;

using steps = rv_fl<chunk>;  // one value for each step of a chunk

// With c the running sum of a in a chunk: step i reads what step j <= i wrote with the factor exp2(row_i - key_j).
struct factors {
    sv_fl<chunk> row;   // c_i + log2(scale)
    sv_fl<chunk> key;   // c_j - log2(w_j)
    sv_fl<chunk> tail;  // exp2(c_last - key_j): how much of step j is left at the chunk's end
    sv_fl<16> decay;    // exp2(c_last), how much of the state is; the same 16 times
};

struct decay_source {
    decays::source from;
    int rows;
    const float *rate, *bias;
    bool softplus, dt_is_bf16;
    gl<float, dynamic, dynamic, 1, dynamic> log_decay;  // (batch, head, 1, row)
    gl<float, dynamic, 1, dynamic, dynamic> dt32;       // (batch, 1, row, head)
    gl<bf16, dynamic, 1, dynamic, dynamic> dt16;

    // What lies in memory for the 64 steps from `row` on; zeros past the end.
    kittens_device void fetch(steps& given, int batch, int head, int row) const {
        if (from == decays::per_step) load(given, log_decay, element_coord{batch, head, 0, row});
        else if (from == decays::from_dt && dt_is_bf16) load_column(given, dt16, element_coord{batch, 0, row, head});
        else if (from == decays::from_dt) load_column(given, dt32, element_coord{batch, 0, row, head});
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

// Writes the factors of the steps from `row` on.
kittens_device void prepare_factors(factors& into, const decay_source& source, const steps& given, int head, int row,
                                    float log_scale) {
    steps a, log_weight, sum, tail;
    source.evaluate(a, log_weight, given, head, row);
    cumulative_sum(sum, a);
    const float last = value_at(sum, chunk - 1);
    add(a, sum, log_scale);
    store(into.row, a);
    sub(sum, sum, log_weight);
    store(into.key, sum);
    map(tail, sum, [=](float key) { return math::exp2(last - key); });
    store(into.tail, tail);
    rv_fl<16> decay;
    fill(decay, math::exp2(last));
    store(into.decay, decay);
}

}  // namespace tk::linear_attention
