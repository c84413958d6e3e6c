// Based (Arora et al. 2024): causal linear attention with the second-order Taylor feature map, w = 1 + s + s^2 / 2.
//
// A block walks down one sequence, 64 rows a step. What the rows of a step see of each other is computed as attention:
// W from S = q k^T, then W V. What they see of all rows before is phi(q) times a state, the sum of phi(k) (x) v, which
// stays in registers in fp32; the tensor cores read a bf16 copy of it from shared memory. Both feature maps are the
// library's second-order features, 11 groups of 16 (README.md): made in registers and never stored. Their factors
// (1/32, 1/16, 1/4) are powers of two, exact in bf16, and all on q's side.
//
// The normaliser needs sums of w alone. Over the rows before they are n + q.K1 / 4 + q^T K2 q / 32, where K1 and K2,
// the sums of k and of k (x) k, are what the linear and constant features make of k as they make the state of v.
//
// shared memory  5 stages of q, k (64 x 16) and v (64 x 64), 2 of the output, the copy of the state: 104 KB, two blocks
//                a multiprocessor
// registers      state 96 (104 with the normaliser's sums), output 32, features of q 44 or of k 48 a thread
// any number of rows: tails are zeros on load, clipped on store; a long sequence is cut into segments (README.md)
// B16 H16 N16384 takes 0.56 ms on an H200, 2.4 TB/s of what has to be read and written: 56 % of what a copy reaches
// there
#pragma once

#include "kittens.cuh"

#include "based.h"

namespace tk::based {

using namespace kittens;

constexpr int chunk = 64, groups = second_order_groups;   // rows of a step; groups of 64 features
constexpr int pairs_at = state_elements / pair_elements;  // where a segment's packed pairs lie, in tiles of their size
static_assert(state_elements % pair_elements == 0 && features == second_order_features);
constexpr float linear = 1.f / 4, square = 1.f / 32;  // w = 1 + linear q.k + square (q.k)^2

using narrow = st_bf<chunk, feature_dim>;
using wide = st_bf<chunk, value_dim>;
using matrices = gl<float, dynamic, 1, dynamic, dynamic>;  // of each head of each batch

// The sums over the rows before: of features of k times v, and of the last group's times k.
template <bool Normalize> struct state {
    rt_fl<16, value_dim> values[groups];
    rt_fl<16, feature_dim> pairs;

    kittens_device void clear() {
        for (auto& tile : values) zero(tile);
        zero(pairs);
    }
    kittens_device void wait_for() {
        if constexpr (Normalize) warpgroup::mma_wait(values[0], values[1], values[2], pairs);
        else warpgroup::mma_wait(values[0], values[1], values[2]);
    }
    // One step's rows; the multiplies are in flight afterwards, and read f.
    kittens_device void add_rows(const rt_bf<16, chunk> (&f)[groups], narrow& k, wide& v) {
#pragma unroll
        for (int i = 0; i < groups; i++) warpgroup::mma_AB(values[i], f[i], v);
        if constexpr (Normalize) warpgroup::mma_AB(pairs, f[groups - 1], k);
    }
    kittens_device void store_to(const matrices& all_values, const matrices& all_pairs, int head) const {
#pragma unroll
        for (int i = 0; i < groups; i++) warpgroup::store(all_values, values[i], element_coord{head, 0, chunk * i, 0});
        if constexpr (Normalize) warpgroup::store(all_pairs, pairs, element_coord{head, 0, 0, 0});
    }
    // As a segment's own, for add_from to read.
    kittens_device void save_to(const matrices& segments, int head, int segment) const {
#pragma unroll
        for (int i = 0; i < groups; i++) warpgroup::store_packed(segments, values[i], coord{head, 0, segment, i});
        if constexpr (Normalize) warpgroup::store_packed(segments, pairs, coord{head, 0, segment, pairs_at});
    }
    kittens_device void add_from(const matrices& segments, int head, int segment) {
#pragma unroll
        for (int i = 0; i < groups; i++) {
            rt_fl<16, value_dim> more;
            warpgroup::load_packed(more, segments, coord{head, 0, segment, i});
            add(values[i], values[i], more);
        }
        if constexpr (Normalize) {
            rt_fl<16, feature_dim> more;
            warpgroup::load_packed(more, segments, coord{head, 0, segment, pairs_at});
            add(pairs, pairs, more);
        }
    }
};

// What a block does one after another: segments of a sequence.
struct task {
    int batch, head, of_all, segment, first, steps;
};
struct segment_order {
    int heads, sequences, segments, steps, total_steps;  // steps: of a segment

    kittens_device bool at(task& t, int index) const {
        if (index >= sequences * segments) return false;
        t.of_all = index / segments;
        t.segment = index - t.of_all * segments;
        t.batch = t.of_all / heads;
        t.head = t.of_all - t.batch * heads;
        const int begin = t.segment * steps, left = total_steps - begin;
        t.first = begin * chunk;
        t.steps = left < steps ? left : steps;
        return true;
    }
};
// What both kernels do.
struct walk : lcsf_defaults {
    static constexpr int consumers = 1, blocks_per_sm = limits::blocks_of_one_consumer(2);
    static constexpr int consumer_registers = limits::consumer_registers(24, consumers, blocks_per_sm);
    using task = based::task;
    template <typename Globals> kittens_device static bool get_task(task& t, const Globals& g, int i) {
        return g.order.at(t, block_index() + i * block_count());
    }
};

template <bool Normalize> struct kernel : walk {
    struct input {
        narrow q, k;
        wide v;
    };
    using output = wide;
    struct workspace {  // the state in bf16
        st_bf<features, value_dim> values;
        st_bf<pair_rows, feature_dim> pairs;
    };
    static constexpr int output_stages = 2;
    static constexpr int stages = limits::stages(
        5, sizeof(input), output_stages * (sizeof(output) + 2 * sizeof(semaphore)) + sizeof(workspace), blocks_per_sm);
    struct globals {
        heads_of<narrow> q, k;
        heads_of<wide> v, o;
        matrices segments;       // what each adds to the state, a row each, where there are several
        matrices values, pairs;  // the state after the last row, where it is asked for
        segment_order order;
    };

    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        const element_coord at{t.batch, t.head, t.first + chunk * step, 0};
        load_async(in.q, g.q, at, full);
        load_async(in.k, g.k, at, full);
        load_async(in.v, g.v, at, full);
    }
    kittens_device static void store(output& out, const task& t, int step, const globals& g) {
        store_async(g.o, out, element_coord{t.batch, t.head, t.first + chunk * step, 0});
    }

    // o += phi(q) state, y = the linear and the constant features times the sums of k. Multiplies are in flight
    // afterwards; the waits are for registers of those that came before.
    kittens_device static void look_back(rt_fl<16, value_dim>& o, rt_fl<16, feature_dim>& y,
                                         const second_order_queries<bf16>& f, workspace& copy_of) {
        warpgroup::mma_AB(o, f.first, subtile<64, value_dim>(copy_of.values, 0, 0));
        warpgroup::mma_wait<1>();
        warpgroup::mma_AB(o, f.second, subtile<64, value_dim>(copy_of.values, 1, 0));
        warpgroup::mma_AB(o, f.lines, subtile<32, value_dim>(copy_of.values, 4, 0));
        warpgroup::mma_AB(o, f.last, subtile<16, value_dim>(copy_of.values, 10, 0));
        if constexpr (Normalize) warpgroup::mm_AB(y, f.lines, subtile<32, feature_dim>(copy_of.pairs, 0, 0));
        warpgroup::mma_wait<3>();
    }

    template <typename Stream> kittens_device static void consume(Stream& s, const task& t, const globals& g) {
        workspace& copy_of = s.own();
        state<Normalize> sums;
        sums.clear();
        for (int before = 0; before < t.segment; before++) sums.add_from(g.segments, t.of_all, before);
        for (int step = 0; step < t.steps; step++) {
            input& in = s.take();
            rt_bf<16, 16> q;
            rt_fl<16, chunk> scores;
            warpgroup::sync(1);  // no warp reads the old copy any more
#pragma unroll
            for (int i = 0; i < groups; i++)
                warpgroup::store(subtile<chunk, value_dim>(copy_of.values, i, 0), sums.values[i]);
            if constexpr (Normalize) {
                rt_fl<16, feature_dim> halved;
                mul(halved, sums.pairs, warp_in_group() == 0 ? square / (linear * linear) : 1.f);
                warpgroup::store(copy_of.pairs, halved);
            }
            fence_async();
            warpgroup::load(q, in.q);
            warpgroup::mm_ABt(scores, q, in.k);
            warpgroup::mma_wait(scores);

            rt_bf<16, chunk> weights;
            rt_fl<16, chunk>::col_vec total;
            map(scores, scores, [](float x) { return 1.f + x * (linear + x * square); });
            tril(scores, scores, 16 * warp_in_group());
            row_sum(total, scores);
            copy(weights, scores);
            rt_fl<16, value_dim> o;
            rt_fl<16, feature_dim> y;
            warpgroup::mm_AB(o, weights, in.v);
            second_order_queries<bf16> of_q;
            of_q.make(q, linear, square);
            warpgroup::sync(1);  // the copy is there
            look_back(o, y, of_q, copy_of);

            rt_bf<chunk, 16, layout::col> k;
            rt_bf<16, chunk> kt, f[groups];
            kittens::load(k, in.k);
            transpose_layout(kt, k);
            if constexpr (Normalize) warpgroup::mma_wait(o, y);
            else warpgroup::mma_wait(o);
            warpgroup::second_order_keys(f, kt);
            sums.add_rows(f, in.k, in.v);

            if constexpr (Normalize) {
                map(y, y, q, [](float a, float b) { return a * b * linear; });
                rt_fl<16, chunk>::col_vec far;
                row_sum(far, y);
                const float rows_before = float(t.first + chunk * step);
                map(total, total, far, [=](float a, float b) { return 1.f / (a + b + rows_before + 1e-6f); });
                mul_row(o, o, total);
            }
            warpgroup::store(s.ask(), o);
            s.hand_over();
            sums.wait_for();
            s.release();
        }
        if (g.values.data != nullptr && t.segment == g.order.segments - 1) sums.store_to(g.values, g.pairs, t.of_all);
    }
};

// What each segment adds to the state, where there are several: from this, the segments are independent.
template <bool Normalize> struct segment_kernel : walk {
    static constexpr int stages = 4;
    struct input {
        narrow k;
        wide v;
    };
    struct globals {
        heads_of<narrow> k;
        heads_of<wide> v;
        matrices segments;
        segment_order order;
    };

    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        const element_coord at{t.batch, t.head, t.first + chunk * step, 0};
        load_async(in.k, g.k, at, full);
        load_async(in.v, g.v, at, full);
    }
    template <typename Stream> kittens_device static void consume(Stream& s, const task& t, const globals& g) {
        state<Normalize> sums;
        sums.clear();
        for (int step = 0; step < t.steps; step++) {
            input& in = s.take();
            rt_bf<chunk, 16, layout::col> k;
            rt_bf<16, chunk> kt, f[groups];
            kittens::load(k, in.k);
            transpose_layout(kt, k);
            warpgroup::second_order_keys(f, kt);
            sums.add_rows(f, in.k, in.v);
            sums.wait_for();
            s.release();
        }
        sums.save_to(g.segments, t.of_all, t.segment);
    }
};

}  // namespace tk::based
