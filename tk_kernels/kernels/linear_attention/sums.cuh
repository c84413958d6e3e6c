// What the walks of the backward pass (backward.cuh) leave in memory in fp32, and what becomes of it.
//
// sums_kernel    the gradients of q and k, where several blocks have a part: zeros before, rounded sums after
// decays_kernel  the gradients of decays, weights and skips, from products of rows; a head's block sums the later steps
//                of each, and a warp has some chunks of the sequence
#pragma once

#include "factors.cuh"

namespace tk::linear_attention {

using numbers = gl<float, dynamic, dynamic, dynamic, dynamic>;
enum which_dots { of_queries, of_keys, of_values, of_skip };  // (batch, unit, which, row)

template <int Keys, bool Clears> struct sums_kernel {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 4, shared_bytes = 0;
    static constexpr int rows = 16 * warps;
    struct globals {
        numbers sums;             // (q's and then k's groups of a batch, part, row, key)
        heads_of<> gradients[2];  // (batch, group, row, key)
        divisor strips, groups;
    };

    kittens_device static void run(const globals& g) {
        int strip, group;
        const int matrix = g.strips.divide(block_index(), strip), batch = g.groups.divide(matrix, group);
        const int row = strip * rows + 16 * warp_index(), is_key = batch >= g.gradients[0].batch();
#pragma unroll
        for (int column = 0; column < Keys; column += 64) {
            rt_fl<16, 64> sum, part;
            zero(sum);
            for (int i = 0; i < g.sums.depth(); i++) {
                const element_coord at{matrix, i, row, column};
                if constexpr (Clears) {
                    store(g.sums, sum, at);
                } else {
                    load(part, g.sums, at);
                    add(sum, sum, part);
                }
            }
            if constexpr (!Clears)
                store(g.gradients[is_key], sum,
                      element_coord{batch - is_key * g.gradients[0].batch(), group, row, column});
        }
    }
};

// The derivative of w = softplus(x) by x, divided by w.
kittens_device float slope_share(float w) {
    return w < 0.01f ? 1.f - w * (0.5f - w * (1.f / 6)) : (1.f - math::exp(-w)) / w;
}

struct decays_kernel {
    static constexpr int warps = 16, cluster_blocks = 1, blocks_per_sm = 1;
    using parts = sv_fl<warps>;
    static constexpr int shared_bytes = 5 * int(sizeof(parts));
    struct globals {
        numbers dots;
        decay_source decay;
        bool skips;
        numbers final, dfinal;  // (batch, head, 1, elements); data may be null
        numbers of_steps;       // (batch, head, 1, row): of log decays, or of dt
        numbers totals;         // (1, batch, head, 3): of rates, biases, skips
        divisor heads;
        int halves;  // units of a head
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        parts* const shared = memory.allocate<parts>("parts", 5);
        int head;
        const int batch = g.heads.divide(block_index(), head), rows = g.dots.cols(), chunks = divide_up(rows, chunk);
        const int mine = warp_index(), first = chunks * mine / warps, end = chunks * (mine + 1) / warps;
        const auto load_difference = [&](steps& x, int row) {
            steps y;
            zero(x);
            for (int unit = head * g.halves; unit < (head + 1) * g.halves; unit++) {
                load(y, g.dots, element_coord{batch, unit, of_queries, row});
                add(x, x, y);
                load(y, g.dots, element_coord{batch, unit, of_keys, row});
                sub(x, x, y);
            }
        };

        steps x, y, sums;
        zero(sums);
        if (g.final.data && g.dfinal.data) {
            for (int at = chunk * mine; at < g.final.cols(); at += chunk * warps) {
                load(x, g.final, element_coord{batch, head, 0, at});
                load(y, g.dfinal, element_coord{batch, head, 0, at});
                mul(x, x, y);
                add(sums, sums, x);
            }
        }
        store_value(shared[0], mine, sum(sums));
        zero(sums);
        for (int i = first; i < end; i++) {
            load_difference(x, i * chunk);
            add(sums, sums, x);
        }
        store_value(shared[1], mine, sum(sums));
        sync_block();
        rv_fl<warps> of_states, of_warps;
        load(of_states, shared[0]);
        load(of_warps, shared[1]);
        each([=](int warp, float& x, float y) { x += warp > mine ? y : 0.f; }, of_states, of_warps);
        float later = sum(of_states);  // of all that is behind a chunk

        const bool smooth = g.decay.softplus;
        steps of_rate, of_bias, of_skips;
        zero(of_rate);
        zero(of_bias);
        zero(of_skips);
        for (int i = end - 1; i >= first; i--) {
            const int row = i * chunk;
            const element_coord at{batch, head, 0, row};
            load_difference(x, row);
            cumulative_sum(sums, x);
            const float whole = value_at(sums, chunk - 1);
            each([=](int j, float& d, float before) { d = row + j < rows ? later + whole - before + d : 0.f; }, x,
                 sums);
            later += whole;
            if (g.decay.from == decays::from_dt) {
                steps weight;
                g.decay.fetch(y, batch, head, row, row);
                g.decay.evaluate(sums, weight, y, head, row);
                exp2(weight, weight);
                mul(x, x, weight);
                add(of_rate, of_rate, x);
                mul(x, x, g.decay.rate[head]);
                load(y, g.dots, element_coord{batch, head, of_values, row});
                add(x, x, y);
                map(x, x, weight, [=](float y, float w) {
                    return y * (smooth ? slope_share(w) : w > 0.f ? 1.f / w : 0.f);
                });
                add(of_bias, of_bias, x);
                if (g.skips) {
                    load(y, g.dots, element_coord{batch, head, of_skip, row});
                    add(of_skips, of_skips, y);
                }
            } else {
                add(of_rate, of_rate, x);
            }
            store(g.of_steps, x, at);
        }
        store_value(shared[2], mine, sum(of_rate));
        store_value(shared[3], mine, sum(of_bias));
        store_value(shared[4], mine, sum(of_skips));
        sync_block();
        if (mine == 0) {
            rv_fl<16> totals;
            zero(totals);
            for (int i = 0; i < 3; i++) {
                load(of_warps, shared[2 + i]);
                const float total = sum(of_warps);
                each([=](int j, float& x) { x = i == j ? total : x; }, totals);
            }
            store(g.totals, totals, element_coord{0, batch, head, 0});
        }
    }
};

}  // namespace tk::linear_attention
