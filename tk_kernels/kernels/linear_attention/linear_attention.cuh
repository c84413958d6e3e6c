// Linear attention with decays, in chunks of 64 steps (the state-space duality of Mamba-2, Dao and Gu 2024):
//
//   scores = Q K^T;  L_ij = exp2(row_i - key_j) for j <= i, else 0
//   O = (scores o L) V + exp2(row_i) Q state;  state = decay state + K^T (tail o V)
//
// A block walks over a sequence, or a segment of one, with one consumer warpgroup for each *unit*: 64 value columns of
// one head. The units of a block share Q and K: neighbouring heads of a group, or the two halves of 128 value columns.
// The state lies transposed (values x keys) in a consumer's registers, fp32: V^T, scaled, is the multiply's A operand
// straight from registers, and a bf16 copy of the state in shared memory, written once a chunk, the B operand of Q
// state.
//
// Each warp stores its own 16 rows of O. Warps of the producer's, one a unit, turn decays into factors (factors.cuh).
// All exponents are <= log2(scale w): nothing overflows.
//
// shared memory  a stage: Q, K 64 x keys, V 64 x 64 a unit, factors; a unit: state 64 x keys, O 64 x 64 (README.md)
// registers      scores 32, O 32, state keys / 2, V^T 16, weights 16, result 16, factors 24 a thread
// keys and values of 64 or 128, any length: tails are zeros on load, do not decay, and are clipped on store
// B16 N16384 on an H200: 16 heads of 64 with shared keys 0.39 ms, 3.0 TB/s, 72 % of what a copy reaches there; 16 heads
// of 128, each with its own keys, 1.07 ms, 4.0 TB/s, 97 %
//
// Segments: a sequence of few heads is cut so that the multiprocessors are busy. First the same kernel without outputs
// sums each segment's increments from a zero state, then carry_states makes of them the states that the segments start
// from. Its last kernel starts while the states are combined, and has its first chunks by then.
#pragma once

#include "decayed_states.cuh"
#include "factors.cuh"

namespace tk::linear_attention {

struct config {
    int keys, consumers, stages;
    // Without outputs: only the state that a segment adds up to, from zero, and how much it decays what was before.
    bool outputs = false;
};

struct segment_order {
    divisor by_pairs, by_segments, by_group;  // blocks' units of a batch; segments; units that share q and k
    int tasks;
    segmentation cut;  // of a sequence's chunks
};

template <config C> struct chunk_kernel : lcsf_defaults {
    static constexpr int consumers = C.consumers, preparing_warps = consumers;
    static constexpr int blocks_per_sm = consumers == 1 ? limits::blocks_of_one_consumer(2) : 1;
    static constexpr int consumer_registers = limits::consumer_registers(40, consumers, blocks_per_sm);
    static constexpr bool starts_early = C.outputs;      // where there are segments
    static constexpr int copies = C.keys == 64 ? 2 : 1;  // of the state: the next one's has room beside it

    using keys = st_bf<chunk, C.keys>;
    using values = st_bf<chunk, unit_cols>;
    using strip = st_bf<16, unit_cols>;
    struct queries {
        keys q;
    };
    struct input : std::conditional_t<C.outputs, queries, lcsf_defaults::none> {
        keys k;
        values v[consumers];
        decay_factors f[consumers];
        static constexpr int bytes = (C.outputs ? 2 : 1) * keys::bytes + consumers * values::bytes;
    };
    struct unit_memory {
        st_bf<unit_cols, C.keys> state[copies];  // transposed
        strip o[warpgroup_warps];
    };
    struct workspace {
        unit_memory unit[C.outputs ? consumers : 1];
    };
    static constexpr int stages = limits::stages(C.stages, sizeof(input), sizeof(workspace), blocks_per_sm);
    using preparation = steps;  // what was read of a chunk's decays
    struct globals {
        heads_of<keys> q, k;
        heads_of<values> v;
        heads_of<strip> o;
        decay_source decay;
        float log_scale;                              // base 2, of its absolute value
        bool negative;                                // the scale is
        skip_weights skip;                            // data may be null
        either_order<state_matrices> initial, final;  // (batch, head, values, keys); data may be null
        state_matrices starts;  // (1, unit x segment but the last, values, keys): increments, then starts
        state_matrices totals;  // (1, the same, 1, 64): what is left of an earlier state, 64 times
        head_units unit;
        segment_order order;
    };
    struct task {
        int batch, unit, group, segment, row, steps;
    };

    kittens_device static bool get_task(task& t, const globals& g, int i) {
        const segment_order& order = g.order;
        const int index = block_index() + i * block_count();
        if (index >= order.tasks) return false;
        const int rest = order.by_pairs.divide(index);
        t.batch = order.by_segments.divide(rest);
        t.unit = (index - rest * order.by_pairs.value) * consumers;
        t.group = order.by_group.divide(t.unit);
        t.segment = rest - t.batch * order.by_segments.value;
        const int first = t.segment * order.cut.length, left = order.cut.steps - first;
        t.row = first * chunk;
        t.steps = left < order.cut.length ? left : order.cut.length;
        return true;
    }

    kittens_device static void load(input& into, const task& t, int step, semaphore& full, const globals& g) {
        const int row = t.row + step * chunk;
        if constexpr (C.outputs) load_async(into.q, g.q, element_coord{t.batch, t.group, row, 0}, full);
        load_async(into.k, g.k, element_coord{t.batch, t.group, row, 0}, full);
#pragma unroll
        for (int c = 0; c < consumers; c++) {
            const unit_of_head u = g.unit.at(t.unit + c);
            load_async(into.v[c], g.v, element_coord{t.batch, u.head, row, u.column}, full);
        }
    }

    kittens_device static void fetch(steps& given, const task& t, int step, int part, const globals& g) {
        g.decay.fetch(given, t.batch, g.unit.at(t.unit + part).head, t.row + step * chunk);
    }
    kittens_device static void prepare(const steps& given, input& into, const task& t, int step, int part,
                                       const globals& g) {
        steps a, log_weight;
        g.decay.evaluate(a, log_weight, given, g.unit.at(t.unit + part).head, t.row + step * chunk);
        make_factors(into.f[part], a, log_weight, g.log_scale);
    }

    template <typename Stream> kittens_device static void consume(Stream& s, const task& t, const globals& g) {
        if constexpr (C.outputs) walk(s, t, g);
        else walk_for_sums(s, t, g);
    }

    // Of a segment, only what its steps add up to.
    template <typename Stream> kittens_device static void walk_for_sums(Stream& s, const task& t, const globals& g) {
        const int mine = warpgroup_index(), first = 16 * warp_in_group(), slot = slot_of(t, g) + t.segment;
        rt_fl<16, C.keys> state;
        rt_bf<16, chunk> scaled;
        typename rt_fl<16, C.keys>::col_vec decay, total;
        zero(state);
        one(total);
        for (int step = 0; step < t.steps; step++) {
            input& in = s.take();
            warpgroup::load_decayed(scaled, in.v[mine], in.f[mine]);
            kittens::load(decay, in.f[mine].decay);
            mul_row(state, state, decay);
            mul(total, total, decay);
            warpgroup::mma_AB(state, scaled, in.k);
            warpgroup::mma_wait(state);
            s.release();
        }
        store(g.starts, state, element_coord{0, slot, first, 0});
        store(g.totals, total, element_coord{0, slot, 0, first});
    }

    // A step's multiplies are issued as soon as their operands are there and waited for as late as their results are
    // needed; what the two units of a multiprocessor wait for is hidden by one another. One fence serves both copies to
    // shared memory.
    template <typename Stream> kittens_device static void walk(Stream& s, const task& t, const globals& g) {
        const int mine = warpgroup_index(), barrier = mine + 1, first = 16 * warp_in_group();
        const unit_of_head u = g.unit.at(t.unit + mine);
        unit_memory& own = s.own().unit[mine];
        strip& out = own.o[warp_in_group()];
        rt_fl<16, C.keys> state;  // transposed: 16 of the unit's value columns
        rt_fl<16, chunk> scores, o;
        rt_bf<16, chunk> weights, scaled;
        typename rt_fl<16, C.keys>::col_vec decay;
        typename rt_fl<16, chunk>::col_vec grown;

        zero(state);
        wait_previous_kernel();  // for the states, and to store; what the other warps read no kernel of these writes
        if (t.segment > 0) kittens::load(state, g.starts, element_coord{0, slot_of(t, g) + t.segment - 1, first, 0});
        else if (g.initial.tensor.data)
            kittens::load(state, g.initial, element_coord{t.batch, u.head, u.column + first, 0});
        warpgroup::store(own.state[0], state);
        fence_async();
        warpgroup::sync(barrier);
        for (int step = 0; step < t.steps; step++) {
            input& in = s.take();
            const decay_factors& f = in.f[mine];
            kittens::load(decay, f.decay);
            mul_row(state, state, decay);
            warpgroup::mm_ABt(scores, in.q, in.k);
            warpgroup::mm_ABt(o, in.q, own.state[step % copies]);
            warpgroup::load_decayed(scaled, in.v[mine], f);
            warpgroup::mma_AB(state, scaled, in.k);
            warpgroup::load(grown, f.grown);
            warpgroup::mma_wait<2>(scores);
            warpgroup::decay_scores(weights, scores, f);
            warpgroup::mma_wait<1>(o);
            mul_row(o, o, grown);
            warpgroup::mma_AB(o, weights, in.v[mine]);

            warpgroup::mma_wait<1>(state);
            if constexpr (copies == 1) warpgroup::sync(barrier);  // every warp has read the old state
            warpgroup::store(own.state[(step + 1) % copies], state);
            store_read_wait();  // the chunk before has left the strip
            warpgroup::mma_wait(o);
            if (g.negative) neg(o, o);
            if (g.skip.data) add_skip(o, in.v[mine], u, g);
            s.release();
            store(out, o);
            fence_async();
            warpgroup::sync(barrier);  // the new state is whole
            store_async(g.o, out, element_coord{t.batch, u.head, t.row + step * chunk + first, u.column});
        }
        if (g.final.tensor.data && t.segment == g.order.cut.count - 1)
            store(g.final, state, element_coord{t.batch, u.head, u.column + first, 0});
        store_read_wait();  // the block's shared memory must outlive its stores
    }

    // Of the increments of this consumer's unit: the first.
    kittens_device static int slot_of(const task& t, const globals& g) {
        const int unit = t.batch * g.order.by_pairs.value * consumers + t.unit + warpgroup_index();
        return unit * (g.order.cut.count - 1);
    }

    // o += skip x values, a column or a head with its own weight.
    kittens_device static void add_skip(rt_fl<16, chunk>& o, const values& v, const unit_of_head& u, const globals& g) {
        rt_bf<16, chunk> x;
        rt_fl<16, chunk> part;
        typename rt_fl<16, chunk>::row_vec weight;
        warpgroup::load(x, v);
        if (g.skip.cols() > 1) kittens::load(weight, g.skip, element_coord{0, 0, u.head, u.column});
        else fill(weight, *g.skip.row(0, 0, u.head));
        map_cols(part, x, weight, ops::mul{});
        add(o, o, part);
    }
};

}  // namespace tk::linear_attention
