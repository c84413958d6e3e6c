// States of recurrences with decays, of sequences in segments: from what each segment adds, and what it leaves of the
// state before it, the states that the segments start from.
#pragma once

#include "kittens.cuh"

namespace kittens {

using state_matrices = gl<float, dynamic, dynamic, dynamic, dynamic>;

// The unit of work on a state of values x keys: 64 value columns of a head, of which each warp of a warpgroup has 16.
inline constexpr int unit_cols = 64;
struct unit_of_head {
    int head, column;
};
struct head_units {
    divisor of_head;  // units of a head
    kittens_device unit_of_head at(int unit) const {
        const int head = of_head.divide(unit);
        return {head, (unit - head * of_head.value) * unit_cols};
    }
};

// In place: of the increments of a unit's segments, the states at their ends. A warp has 16 x 16 of a unit's state. The
// next kernel may start early. This one does not: its blocks would crowd on what the sums leave free.
template <int Keys> struct carry_states_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int strips = Keys / 16, ahead = 8;  // segments that are loaded together
    struct globals {
        either_order<state_matrices> initial;  // (batch, head, values, keys); data may be null
        state_matrices states;                 // (1, unit x segment but the last, 64, keys): increments, then states
        state_matrices totals;  // (1, the same, 1, 64): what a segment leaves of the state before it, 64 times
        head_units unit;
        divisor of_batch;  // units of a batch
        int borders;       // between segments
    };

    kittens_device static void run(const globals& g) {
        start_next_kernel();
        const int index = block_index() / strips, key = block_index() % strips * 16, value = 16 * warp_in_group();
        const int batch = g.of_batch.divide(index);
        const unit_of_head u = g.unit.at(index - batch * g.of_batch.value);
        using part = rt_fl<16, 16>;
        part state, increments[ahead];
        part::col_vec totals[ahead];
        zero(state);
        if (g.initial.tensor.data) load(state, g.initial, element_coord{batch, u.head, u.column + value, key});
        for (int first = 0; first < g.borders; first += ahead) {
#pragma unroll
            for (int i = 0; i < ahead; i++) {
                // Beyond the last border: loaded once more and not used.
                const int slot = index * g.borders + (first + i < g.borders ? first + i : g.borders - 1);
                load(increments[i], g.states, element_coord{0, slot, value, key});
                load(totals[i], g.totals, element_coord{0, slot, 0, value});
            }
#pragma unroll
            for (int i = 0; i < ahead; i++) {
                if (first + i >= g.borders) break;
                mul_row(state, state, totals[i]);
                add(state, state, increments[i]);
                store(g.states, state, element_coord{0, index * g.borders + first + i, value, key});
            }
        }
    }
};
// Of `units` in all, with `borders` between the segments of each.
template <int Keys> void carry_states(int64_t units, void* stream,
                                      const typename carry_states_kernel<Keys>::globals& globals) {
    using kernel = carry_states_kernel<Keys>;
    launch<kernel>({int(units) * kernel::strips, 0}, stream, globals);
}

}  // namespace kittens
