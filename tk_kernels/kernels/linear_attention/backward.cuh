// The gradients of linear attention with decays, in chunks of 64 steps: two walks over a sequence. With c the sums of
// the log decays in a chunk, w the steps' weights and L_ij = scale w_j exp2(c_i - c_j) for j <= i, else 0:
//
//   query_walk, forward with the state S:     dq = (dO V^T o L) K + scale exp2(c) dO S^T
//   key_walk, backward with S's gradient R:   dk = (dO V^T o L)^T Q + w exp2(c_last - c) V R^T
//                                             dv = (Q K^T o L)^T dO + w exp2(c_last - c) K R (+ skip dO)
//                                             R = exp2(c_last) R + (scale exp2(c) Q)^T dO: ends as the first state's
//
// A decay's gradient is the sum, over the steps from its own on, of q . dq - k . dk: both walks store these products of
// rows, from sums in fp32. What one of them rounds the other has to round alike, or the errors add up from chunk to
// chunk: dO V^T o L, and exp2(c) dO and w exp2(c_last - c) V before they are multiplied. What the bf16 copies of S and
// R have lost is added (lost_dots). The weights' gradient is v . dv / w, without the skip, whose own is the sum of
// v . dO. sums.cuh makes gradients of these products.
//
// As in the forward pass (linear_attention.cuh) a consumer warpgroup has a unit, 64 value columns of a head, keeps S or
// R in registers, transposed, with a bf16 copy in shared memory, and warps of the producer's make factors. The units
// that share Q and K add up to dQ and dK: two of a block by shared memory, those of several blocks in fp32 in memory.
//
// shared memory  a stage: Q, K 64 x keys, V, dO 64 x 64 a unit, factors; a unit: state 64 x keys, dV 64 x 64; dQ or dK
//                64 x keys in fp32
// registers      state and dQ or dK keys / 2 each, scores 32, dV 32, weights 16 a thread
#pragma once

#include "decayed_states.cuh"
#include "sums.cuh"

namespace tk::linear_attention {

using row_dots = rt_fl<16, 16>::col_vec;  // a number for each of a warp's 16 rows

struct unit_order {
    divisor by_pairs, by_group;  // blocks' units of a batch; units that share q and k
    int tasks, steps;            // steps: chunks of a sequence
};
struct unit_task {
    int batch, unit, group, steps;

    kittens_device bool get(const unit_order& order, int consumers, int i) {
        const int index = block_index() + i * block_count();
        if (index >= order.tasks) return false;
        batch = order.by_pairs.divide(index);
        unit = (index - batch * order.by_pairs.value) * consumers;
        group = order.by_group.divide(unit);
        steps = order.steps;
        return true;
    }
};

// Of each row, its product with the row of a tile of the chunk's.
template <int Cols, int Width>
kittens_device void find_dots(row_dots& dots, const rt_fl<16, Cols>& x, st_bf<chunk, Width>& rows) {
    zero(dots);
#pragma unroll
    for (int c = 0; c < Cols / 64; c++) {
        rt_bf<16, 64> y;
        rt_fl<16, 64> terms;
        load(y, subtile<16, 64>(rows, warp_in_group(), c));
        part(terms, x, 0, c);
        map(terms, terms, y, ops::mul{});
        row_sum_partial(dots, terms);
    }
    row_sum_finish(dots);
}

// What a chunk's products of rows are short of because they are made of the state's copy in bf16, a part by each warp:
// (state - copy, transposed) times the rows of q or k, times those of dout or v, each with its factor. There is room
// for two chunks: a warp is a barrier ahead of another at most.
struct lost_dots {
    sv_fl<chunk> of_warp[2][warpgroup_warps];

    template <int Keys>
    kittens_device void find(int step, const rt_fl<16, Keys>& state, st_bf<chunk, Keys>& by_keys,
                             st_bf<chunk, unit_cols>& by_values, const sv_fl<chunk>& factors) {
        rt_bf<16, Keys> lost;
        rt_bf<16, chunk> values;
        rt_fl<16, chunk> products;
        typename rt_fl<16, chunk>::row_vec factor, sums;
        map(lost, state, [](float x) { return x - to_float(from_float<bf16>(x)); });
        warpgroup::mm_ABt(products, lost, by_keys);
        load(factor, factors);
        warpgroup::load_transposed(values, by_values);
        map_cols(values, values, factor, ops::mul{});
        warpgroup::mma_wait(products);
        map(products, products, values, ops::mul{});
        col_sum(sums, products);
        store(of_warp[step % 2][warp_in_group()], sums);
    }
    // Behind a barrier.
    kittens_device void add_to(row_dots& dots, int step) {
        row_dots part;
#pragma unroll
        for (int warp = 0; warp < warpgroup_warps; warp++) {
            warpgroup::load(part, of_warp[step % 2][warp]);
            add(dots, dots, part);
        }
    }
};

// Where the gradient of q or k goes: to the tensor itself where one block has all units that share it, else to sums in
// fp32 (batch, slot, rows, keys), each of which one block stores, or several add to.
template <int Keys> struct shared_gradient {
    heads_of<st_bf<16, Keys>> rounded;
    gl<float, dynamic, dynamic, dynamic, dynamic, st_fl<16, Keys>> sums;
    bool rounds, adds;
    int slot_units;
};
template <int Keys, int Consumers> struct shared_rows {
    union rows {
        st_fl<16, Keys> sum;
        st_bf<16, Keys> rounded;
    };
    per_warp<rows> of_warps;

    // Of this warp's 16 rows, each consumer's part; the first consumer stores the sum.
    kittens_device void store_sum(const shared_gradient<Keys>& to, rt_fl<16, Keys>& x, element_coord at) {
        rows& own = of_warps.own();
        if constexpr (Consumers == 2) {
            const int free = 3 + warp_in_group(), given = 7 + warp_in_group();  // barriers of the two warps
            if (warpgroup_index() == 1) {
                sync_named(free, 2);
                store(own.sum, x);
                arrive_named(given, 2);
                return;
            }
            store_read_wait();
            arrive_named(free, 2);
            sync_named(given, 2);
#pragma unroll
            for (int c = 0; c < Keys / 32; c++) {
                rt_fl<16, 32> mine, other;
                load(other, subtile<16, 32>(own.sum, 0, c));
                part(mine, x, 0, c);
                add(mine, mine, other);
                place(x, mine, 0, c);
            }
            sync_warp();
        } else {
            store_read_wait();
        }
        if (to.rounds) {
            store(own.rounded, x);
            fence_async();
            store_async(to.rounded, own.rounded, at);
        } else {
            store(own.sum, x);
            fence_async();
            if (to.adds) store_add_async(to.sums, own.sum, at);
            else store_async(to.sums, own.sum, at);
        }
    }
};

// What both walks take.
template <int Keys> struct walk_tensors {
    heads_of<st_bf<chunk, Keys>> q, k;
    heads_of<st_bf<chunk, unit_cols>> v, dout;
    decay_source decay;
    float log_scale;  // base 2
    numbers dots;     // data may be null
    head_units unit;
    unit_order order;

    // Of the calling warp's unit, from its row on.
    kittens_device void store_dots(const row_dots& sums, const unit_task& t, which_dots which, int row) const {
        store(dots, sums, element_coord{t.batch, t.unit + warpgroup_index(), which, row});
    }
};

template <int Keys, int Consumers, bool Reversed> struct walk_shape : lcsf_defaults {
    static constexpr int consumers = Consumers, preparing_warps = consumers;
    static constexpr int blocks_per_sm = consumers == 1 && Keys == 64 ? limits::blocks_of_one_consumer(2) : 1;
    static constexpr int consumer_registers = consumers == 1 && blocks_per_sm == 1
                                                  ? (limits::moves_registers ? 240 : limits::consumer_registers(40, 1))
                                                  : limits::consumer_registers(40, consumers, blocks_per_sm);
    static constexpr int copies = Keys == 64 ? 2 : 1;  // of the state: the next one's has room beside it
    static constexpr bool grows_early = Keys == 64;    // the state: its operand has registers beside the others'

    using keys = st_bf<chunk, Keys>;
    using values = st_bf<chunk, unit_cols>;
    using state_copy = st_bf<unit_cols, Keys>;  // transposed
    using strip = st_bf<16, unit_cols>;
    using preparation = steps;
    using task = unit_task;
    struct input {
        keys q, k;
        values v[consumers], dout[consumers];
        decay_factors f[consumers];
        static constexpr int bytes = 2 * keys::bytes + 2 * consumers * values::bytes;
    };
    kittens_device static int row_of(const task& t, int step) { return (Reversed ? t.steps - 1 - step : step) * chunk; }
    kittens_device static bool get_task(task& t, const auto& g, int i) { return t.get(g.in.order, consumers, i); }
    kittens_device static void load(input& into, const task& t, int step, semaphore& full, const auto& g) {
        const walk_tensors<Keys>& in = g.in;
        const int row = row_of(t, step);
        load_async(into.q, in.q, element_coord{t.batch, t.group, row, 0}, full);
        load_async(into.k, in.k, element_coord{t.batch, t.group, row, 0}, full);
#pragma unroll
        for (int c = 0; c < consumers; c++) {
            const unit_of_head u = in.unit.at(t.unit + c);
            load_async(into.v[c], in.v, element_coord{t.batch, u.head, row, u.column}, full);
            load_async(into.dout[c], in.dout, element_coord{t.batch, u.head, row, u.column}, full);
        }
    }
    kittens_device static void fetch(steps& given, const task& t, int step, int part, const auto& g) {
        const int row = row_of(t, step), later = Reversed ? row - 4 * chunk : row + 4 * chunk;
        g.in.decay.fetch(given, t.batch, g.in.unit.at(t.unit + part).head, row, later < 0 ? 0 : later);
    }
    kittens_device static void prepare(const steps& given, input& into, const task& t, int step, int part,
                                       const auto& g) {
        steps a, log_weight;
        g.in.decay.evaluate(a, log_weight, given, g.in.unit.at(t.unit + part).head, row_of(t, step));
        make_factors(into.f[part], a, log_weight, g.in.log_scale);
    }
};

template <int Keys, int Consumers, int Stages> struct query_walk : walk_shape<Keys, Consumers, false> {
    using shape = walk_shape<Keys, Consumers, false>;
    using shape::consumers, shape::copies, shape::grows_early;
    using typename shape::task, typename shape::input;
    struct workspace {
        typename shape::state_copy state[consumers][shape::copies];
        lost_dots lost[consumers];
        shared_rows<Keys, Consumers> dq;
    };
    static constexpr int stages = limits::stages(Stages, sizeof(input), sizeof(workspace), shape::blocks_per_sm);
    struct globals {
        walk_tensors<Keys> in;
        shared_gradient<Keys> dq;
        either_order<state_matrices> initial;  // (batch, head, values, keys); data may be null
    };

    template <typename Stream> kittens_device static void consume(Stream& s, const task& t, const globals& g) {
        const int mine = warpgroup_index(), barrier = mine + 1, first = 16 * warp_in_group();
        const unit_of_head u = g.in.unit.at(t.unit + mine);
        auto& copy = s.own().state[mine];
        lost_dots& lost = s.own().lost[mine];
        rt_fl<16, Keys> state, dq;
        rt_fl<16, chunk> scores;
        rt_bf<16, chunk> weights, read, scaled;
        row_dots factor, dots;

        zero(state);
        if (g.initial.tensor.data) kittens::load(state, g.initial, element_coord{t.batch, u.head, u.column + first, 0});
        warpgroup::store(copy[0], state);
        fence_async();
        warpgroup::sync(barrier);
        for (int step = 0; step < t.steps; step++) {
            input& in = s.take();
            const decay_factors& f = in.f[mine];
            if (g.in.dots.data) lost.find(step, state, in.q, in.dout[mine], f.grown);
            warpgroup::mm_ABt(scores, in.dout[mine], in.v[mine]);
            warpgroup::load(factor, f.grown);
            warpgroup::load(read, in.dout[mine]);
            mul_row(read, read, factor);
            warpgroup::mm_AB(dq, read, copy[step % copies]);
            kittens::load(factor, f.decay);
            mul_row(state, state, factor);
            if constexpr (grows_early) add_writes(state, scaled, in);
            warpgroup::mma_wait<grows_early ? 2 : 1>(scores);
            warpgroup::decay_scores(weights, scores, f);
            warpgroup::mma_AB(dq, weights, in.k);
            if constexpr (!grows_early) add_writes(state, scaled, in);

            warpgroup::mma_wait<grows_early ? 1 : 0>(state);
            if constexpr (copies == 1) warpgroup::sync(barrier);  // every warp has read the old state
            warpgroup::store(copy[(step + 1) % copies], state);
            warpgroup::mma_wait(dq);
            if (g.in.dots.data) find_dots(dots, dq, in.q);
            s.release();
            s.own().dq.store_sum(g.dq, dq, element_coord{t.batch, t.unit / g.dq.slot_units, step * chunk + first, 0});
            fence_async();
            warpgroup::sync(barrier);  // the new state is whole
            if (g.in.dots.data) {
                lost.add_to(dots, step);
                g.in.store_dots(dots, t, of_queries, step * chunk + first);
            }
        }
        store_read_wait();  // the block's shared memory must outlive its stores
    }

    // state += k^T (tail w v), transposed.
    kittens_device static void add_writes(rt_fl<16, Keys>& state, rt_bf<16, chunk>& scaled, const input& in) {
        warpgroup::load_decayed(scaled, in.v[warpgroup_index()], in.f[warpgroup_index()]);
        warpgroup::mma_AB(state, scaled, in.k);
    }
};

// weights = scores o L^T: decay_scores (ops/decays.cuh) of scores whose rows are the steps that write, columns those
// that read. The scores are lost.
kittens_device void decay_later_scores(rt_bf<16, chunk>& weights, rt_fl<16, chunk>& scores, const decay_factors& f) {
    rt_fl<16, 16> own, power;
    rt_fl<16, 16>::col_vec key, before;
    rt_fl<16, 16>::row_vec row;
    rt_fl<16, chunk>::row_vec far;
    const int warp = warp_in_group();
    warpgroup::load(row, f.row);
    warpgroup::load(key, f.key);
    load(far, f.far);
    broadcast_col(power, row);
    sub_row(power, power, key);
    triu(power, power, 0, -INFINITY);
    exp2(power, power);
#pragma unroll
    for (int j = 0; j < warpgroup_warps; j++)
        if (j == warp) part(own, scores, 0, j);
    mul(own, own, power);
    mul_col(scores, scores, far);
#pragma unroll
    for (int j = 0; j < warpgroup_warps; j++) {
        warpgroup::load(before, f.before[j]);
        part(power, scores, 0, j);
        mul_row(power, power, before);
        if (j == warp) copy(power, own);
        place(scores, power, 0, j);
    }
    copy(weights, scores);
}

template <int Keys, int Consumers, int Stages> struct key_walk : walk_shape<Keys, Consumers, true> {
    using shape = walk_shape<Keys, Consumers, true>;
    using shape::consumers, shape::copies, shape::grows_early, shape::row_of;
    using typename shape::task, typename shape::input, typename shape::strip;
    struct unit_memory {
        typename shape::state_copy state[shape::copies];
        lost_dots lost;
        strip dv[warpgroup_warps];
    };
    struct workspace {
        unit_memory unit[consumers];
        shared_rows<Keys, Consumers> dk;
    };
    static constexpr int stages = limits::stages(Stages, sizeof(input), sizeof(workspace), shape::blocks_per_sm);
    struct globals {
        walk_tensors<Keys> in;
        shared_gradient<Keys> dk;
        heads_of<strip> dv;
        skip_weights skip;                              // data may be null
        either_order<state_matrices> dfinal, dinitial;  // (batch, head, values, keys); data may be null
    };

    template <typename Stream> kittens_device static void consume(Stream& s, const task& t, const globals& g) {
        const int mine = warpgroup_index(), barrier = mine + 1, first = 16 * warp_in_group();
        const unit_of_head u = g.in.unit.at(t.unit + mine);
        unit_memory& own = s.own().unit[mine];
        strip& out = own.dv[warp_in_group()];
        rt_fl<16, Keys> state, dk;  // the state's gradient, transposed: 16 of the unit's value columns
        rt_fl<16, chunk> scores, dv;
        rt_bf<16, chunk> weights, written, scaled;
        row_dots left, dots, of_weights;

        zero(state);
        if (g.dfinal.tensor.data) kittens::load(state, g.dfinal, element_coord{t.batch, u.head, u.column + first, 0});
        warpgroup::store(own.state[0], state);
        fence_async();
        warpgroup::sync(barrier);
        for (int step = 0; step < t.steps; step++) {
            input& in = s.take();
            const decay_factors& f = in.f[mine];
            const int row = row_of(t, step) + first;
            if (g.in.dots.data) own.lost.find(step, state, in.k, in.v[mine], f.tail);
            warpgroup::mm_ABt(scores, in.v[mine], in.dout[mine]);
            warpgroup::load(left, f.tail);
            warpgroup::load(written, in.v[mine]);
            mul_row(written, written, left);
            warpgroup::mm_AB(dk, written, own.state[step % copies]);
            kittens::load(left, f.decay);
            mul_row(state, state, left);
            if constexpr (grows_early) add_reads(state, scaled, in);
            warpgroup::mma_wait<grows_early ? 2 : 0>(scores);  // 0: `written` leaves its registers
            decay_later_scores(weights, scores, f);
            warpgroup::mma_AB(dk, weights, in.q);
            if constexpr (!grows_early) add_reads(state, scaled, in);
            warpgroup::mm_ABt(scores, in.k, in.q);
            warpgroup::mma_wait<grows_early ? 1 : 2>(dk);
            if (g.in.dots.data) find_dots(dots, dk, in.k);
            s.own().dk.store_sum(g.dk, dk, element_coord{t.batch, t.unit / g.dk.slot_units, row, 0});

            warpgroup::mm_ABt(dv, in.k, own.state[step % copies]);
            warpgroup::mma_wait<1>(scores);
            decay_later_scores(weights, scores, f);
            warpgroup::load(left, f.tail);
            warpgroup::mma_wait(dv);
            mul_row(dv, dv, left);
            warpgroup::mma_AB(dv, weights, in.dout[mine]);
            warpgroup::mma_wait<1>(state);
            if constexpr (copies == 1) warpgroup::sync(barrier);  // every warp has read the old state
            warpgroup::store(own.state[(step + 1) % copies], state);
            store_read_wait();  // the chunk behind has left the strip
            warpgroup::mma_wait(dv);
            if (g.in.dots.data) {
                find_dots(of_weights, dv, in.v[mine]);
                g.in.store_dots(of_weights, t, of_values, row);
            }
            if (g.skip.data) add_skip(dv, in, t, row, u, g);
            s.release();
            store(out, dv);
            fence_async();
            warpgroup::sync(barrier);  // the new state is whole
            if (g.in.dots.data) {
                own.lost.add_to(dots, step);
                g.in.store_dots(dots, t, of_keys, row);
            }
            store_async(g.dv, out, element_coord{t.batch, u.head, row, u.column});
        }
        if (g.dinitial.tensor.data) store(g.dinitial, state, element_coord{t.batch, u.head, u.column + first, 0});
        store_read_wait();  // the block's shared memory must outlive its stores
    }

    // state += (scale exp2(c) q)^T dout, transposed.
    kittens_device static void add_reads(rt_fl<16, Keys>& state, rt_bf<16, chunk>& scaled, input& in) {
        typename rt_fl<16, chunk>::row_vec grown;
        kittens::load(grown, in.f[warpgroup_index()].grown);
        warpgroup::load_transposed(scaled, in.dout[warpgroup_index()]);
        map_cols(scaled, scaled, grown, ops::mul{});
        warpgroup::mma_AB(state, scaled, in.q);
    }

    // dv += skip dout, and the products of which the skip's gradient is the sum.
    kittens_device static void add_skip(rt_fl<16, chunk>& dv, input& in, const task& t, int row, const unit_of_head& u,
                                        const globals& g) {
        rt_bf<16, chunk> dout;
        rt_fl<16, chunk> part;
        typename rt_fl<16, chunk>::row_vec weight;
        row_dots dots;
        warpgroup::load(dout, in.dout[warpgroup_index()]);
        copy(part, dout);
        find_dots(dots, part, in.v[warpgroup_index()]);
        g.in.store_dots(dots, t, of_skip, row);
        if (g.skip.cols() > 1) kittens::load(weight, g.skip, element_coord{0, 0, u.head, u.column});
        else fill(weight, *g.skip.row(0, 0, u.head));
        mul_col(part, part, weight);
        add(dv, dv, part);
    }
};

}  // namespace tk::linear_attention
