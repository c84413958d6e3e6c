// The host side of Hedgehog's kernels: into how many segments a problem is cut, and the launches.
#pragma once

#include <algorithm>

#include "window.cuh"

namespace tk::hedgehog {

constexpr int most_segments = 64;

inline int blocks_of(const problem& p) { return int(divide_up(p.rows, rows)); }

// Time in steps of 64 rows, for so many segments (README.md), where the values are computed in `Parts`.
template <int Parts> double cost(const problem& p, int count) {
    const double each = divide_up(blocks_of(p), count);
    const auto rounds = [](int64_t tasks) { return double(divide_up(Parts * tasks, multiprocessors())); };
    const int64_t sequences = p.batch * p.heads;
    const double answers = rounds(sequences * count) * (each + 1.5);
    return count == 1 ? answers : answers + rounds(sequences * (count - 1)) * (0.8 * each + 1.5) + 5;
}

template <int Parts> int segments_of(const problem& p, int wanted) {
    const int blocks = blocks_of(p), most = std::min(most_segments, blocks);
    const auto cost_of = [&](int n) { return cost<Parts>(p, n); };
    return segmentation(blocks, wanted > 0 ? wanted : cheapest_segments(most, cost_of)).count;
}

// Kernel<true> computes the outputs, Kernel<false> what each segment but the last adds to the state.
template <template <bool> typename Kernel, int Parts>
void run_segments(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out,
                  const head_weights& heads, const states& finals, int count, float* scratch, void* stream) {
    const int64_t sequences = p.batch * p.heads;
    require_counts("hedgehog", 256, {p.rows, sequences * most_segments});
    const segmentation of(blocks_of(p), count);
    // `each` states of a sequence.
    const auto list = [&](float* k_sums, float* kv_sums, int each) {
        return state_list{{k_sums, sequences, each, 1, 2 * features}, {kv_sums, sequences, each, 2 * features, dim}};
    };
    const int earlier = count - 1;
    const state_list carried = list(scratch + sequences * earlier * (2 * features * dim), scratch, earlier);
    const auto run = [&]<bool answers>(const state_list& after, bool wanted, int computed) {
        launch_tasks<Kernel<answers>>(
            Parts * sequences * computed, stream,
            {{q, p.batch, p.heads, p.rows, dim},
             {k, p.batch, p.heads, p.rows, dim},
             {v, p.batch, p.heads, p.rows, dim},
             {out, p.batch, p.heads, p.rows, dim},
             {static_cast<bf16*>(heads.q_map), 1, p.heads, dim, features},
             {static_cast<bf16*>(heads.k_map), 1, p.heads, dim, features},
             heads.alpha,
             heads.beta,
             carried,
             after,
             wanted,
             p.rows % rows == 0,
             {of.steps, of.length, int(sequences) * computed, divisor(computed), divisor(int(p.heads))}});
    };
    if (count > 1) {
        run.template operator()<false>(carried, true, earlier);
        sum_states(carried, stream);
    }
    run.template operator()<true>(list(finals.k, finals.kv, 1), finals.kv != nullptr, count);
}

}  // namespace tk::hedgehog
