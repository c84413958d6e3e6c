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

// With c the running sum of a in a chunk: step i reads what step j <= i wrote with the factor exp2(row_i - key_j). Where a
// warp's 16 rows lie behind j it is far_i before_j, without an exponential in the consumers: with c at the end of the 16 rows
// before, m, they are exp2(row_i - m) and exp2(m - key_j), both of what decays.
struct factors {
    sv_fl<chunk> row;  // c_i + log2(scale)
    sv_fl<chunk> key;  // c_j - log2(w_j)
    sv_fl<chunk> far;
    sv_fl<chunk> before[warpgroup_warps];  // of each warp; 0 from its own rows on
    sv_fl<chunk> grown;                    // exp2(row_i): of the state at the chunk's start
    sv_fl<chunk> tail;                     // exp2(c_last - key_j): how much of step j is left at the chunk's end
    sv_fl<16> decay;                       // exp2(c_last), how much of the state is; the same 16 times
};

struct decay_source {
    decays::source from;
    int rows;
    const float *rate, *bias;
    bool softplus, dt_is_bf16;
    gl<float, dynamic, dynamic, 1, dynamic> log_decay;  // (batch, head, 1, row)
    gl<float, dynamic, 1, dynamic, dynamic> dt32;       // (batch, 1, row, head)
    gl<bf16, dynamic, 1, dynamic, dynamic> dt16;

    // What lies in memory for the 64 steps from `row` on; zeros past the end. It is asked for some chunks ahead.
    kittens_device void fetch(steps& given, int batch, int head, int row) const {
        const int later = row + 4 * chunk;
        if (from == decays::per_step) {
            load(given, log_decay, element_coord{batch, head, 0, row});
            prefetch_row<chunk>(log_decay, element_coord{batch, head, 0, later});
        } else if (from == decays::from_dt && dt_is_bf16) {
            load_column(given, dt16, element_coord{batch, 0, row, head});
            prefetch_column<chunk>(dt16, element_coord{batch, 0, later, head});
        } else if (from == decays::from_dt) {
            load_column(given, dt32, element_coord{batch, 0, row, head});
            prefetch_column<chunk>(dt32, element_coord{batch, 0, later, head});
        }
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
    steps a, log_weight, sum, key, x;
    source.evaluate(a, log_weight, given, head, row);
    cumulative_sum(sum, a);
    sub(key, sum, log_weight);
    store(into.key, key);
    const float last = value_at(sum, chunk - 1);
    map(x, key, [=](float k) { return math::exp2(last - k); });
    store(into.tail, x);
    rv_fl<16> decay;
    fill(decay, math::exp2(last));
    store(into.decay, decay);

    const float ends[] = {0.f, value_at(sum, 15), value_at(sum, 31), value_at(sum, 47)};  // of the rows before a warp's
#pragma unroll
    for (int warp = 0; warp < warpgroup_warps; warp++) {
        const float end = ends[warp];
        each([=](int j, float& y, float k) { y = j < 16 * warp ? math::exp2(end - k) : 0.f; }, x, key);
        store(into.before[warp], x);
    }
    add(sum, sum, log_scale);
    store(into.row, sum);
    exp2(x, sum);
    store(into.grown, x);
    const float first = ends[1], second = ends[2], third = ends[3];
    each([=](int i, float& y) { y -= i < 16 ? 0.f : i < 32 ? first : i < 48 ? second : third; }, sum);
    exp2(sum, sum);
    store(into.far, sum);
}

}  // namespace tk::linear_attention
