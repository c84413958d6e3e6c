// The gradients of Based, in two walks over a sequence, each with a state as the forward pass has it (based.cuh). With
// n the normaliser, or 1, e = dO / n, delta = dO . O, or 0, and c = -delta / n, in the chunk of 64 rows
//
//   query_walk, forward:  dq = ((dO V^T - delta) o W') K + phi'(q)^T (S dO - delta z), divided by n
//   key_walk, backward:   dv = W^T e + R^T phi(k), dk = ((e V^T + c) o W')^T Q + phi'(k)^T (R v + y)
//
// W' is W's derivative by q.k; S and z are the sums of phi(k) (x) v and phi(k) over the rows before, R and y those of
// phi(q) (x) e and phi(q) c over the rows behind. Features are products of q's or k's numbers, and so the same for both
// sides: R is a sum of what second_order_keys makes of q. phi' is applied to the features' gradients, 64 at a time.
// Of z and y the rows of the features that are q or k itself hold all, as in the forward pass.
//
// shared memory  a stage: q, k, v, dO and in the first walk O; a copy of the state in bf16; e and c q in the second
// registers      state 96 (104 with the normaliser's sums), scores and products of dO and v 64, features' gradients 32
#pragma once

#include "based.cuh"

namespace tk::based {

using numbers = gl<float, dynamic, dynamic, dynamic, dynamic>;
enum which_number { of_weights, of_deltas };  // 1 / n and c: (batch, head, which, row)
using row_numbers = rt_fl<16, chunk>::col_vec;
using part_tile = rt_fl<16, 16>;

kittens_device float slope(float product) { return linear + 2 * square * product; }  // W'

// dx += what a diagonal's gradients g make of it: its features are x_c x_(c + Turn) factor.
template <int Turn>
kittens_device void add_diagonal(part_tile& dx, const rt_bf<16, 16>& x, const part_tile& g, float factor) {
    rt_bf<16, 16> turned;
    part_tile terms;
    rotate_cols<Turn>(turned, x);
    map(terms, g, turned, [=](float a, float b) { return factor * a * b; });
    add(dx, dx, terms);
    map(terms, g, x, [=](float a, float b) { return factor * a * b; });
    copy(turned, terms);
    rotate_cols<(16 - Turn) % 16>(turned, turned);
    add(dx, dx, turned);
}
// The same of a group of 64 features, in the order of second_order.cuh.
template <int Group> kittens_device void add_group(part_tile& dx, const rt_bf<16, 16>& x, const rt_fl<16, 64>& all) {
    part_tile g[4];
#pragma unroll
    for (int i = 0; i < 4; i++) part(g[i], all, 0, i);
    if constexpr (Group == 2) {
        map(g[0], g[0], [](float a) { return linear * a; });
        add(dx, dx, g[0]);
        add_diagonal<4>(dx, x, g[2], 2 * square);
    } else {
        add_diagonal<8 * Group + 1>(dx, x, g[0], 2 * square);
        add_diagonal<8 * Group + 2>(dx, x, g[1], 2 * square);
        add_diagonal<8 * Group>(dx, x, g[2], square);
        add_diagonal<8 * Group + 3>(dx, x, g[3], 2 * square);
    }
}

template <bool Normalize> struct gradient_walk : walk {
    using copies = typename kernel<Normalize>::workspace;

    kittens_device static void store_copies(copies& to, const state<Normalize>& sums) {
#pragma unroll
        for (int i = 0; i < groups; i++) warpgroup::store(subtile<chunk, value_dim>(to.values, i, 0), sums.values[i]);
        if constexpr (Normalize) warpgroup::store(to.pairs, sums.pairs);
    }
    // dx += phi'(x)^T (state rows).
    kittens_device static void add_features(part_tile& dx, const rt_bf<16, 16>& x, wide& rows, copies& copy_of) {
        rt_fl<16, 64> g;
        const auto group = [&]<int Group>() {
            warpgroup::mm_ABt(g, rows, subtile<64, value_dim>(copy_of.values, Group, 0));
            warpgroup::mma_wait(g);
            add_group<Group>(dx, x, g);
        };
        group.template operator()<0>();
        group.template operator()<1>();
        group.template operator()<2>();
    }
    // One step's rows into the state: x's features times `narrow_rows` and `wide_rows`.
    kittens_device static void add_rows(state<Normalize>& sums, rt_bf<16, chunk> (&f)[groups], narrow& x,
                                        narrow& narrow_rows, wide& wide_rows) {
        rt_bf<chunk, 16, layout::col> columns;
        rt_bf<16, chunk> turned;
        kittens::load(columns, x);
        transpose_layout(turned, columns);
        warpgroup::second_order_keys(f, turned);
        sums.add_rows(f, narrow_rows, wide_rows);
    }
};

template <bool Normalize> struct query_walk : gradient_walk<Normalize> {
    using base = gradient_walk<Normalize>;
    using typename base::task;
    struct with_out {
        narrow q, k;
        wide v, dout, out;
    };
    struct without_out {
        narrow q, k;
        wide v, dout;
    };
    using input = std::conditional_t<Normalize, with_out, without_out>;
    using output = narrow;
    using workspace = typename base::copies;
    static constexpr int output_stages = 2;
    static constexpr int stages =
        limits::stages(3, sizeof(input), output_stages * (sizeof(output) + 2 * sizeof(semaphore)) + sizeof(workspace),
                       base::blocks_per_sm);
    struct globals {
        heads_of<narrow> q, k;
        heads_of<wide> v, dout, out;
        heads_of<narrow> dq;
        numbers rows;
        segment_order order;
    };

    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        const element_coord at{t.batch, t.head, chunk * step, 0};
        load_async(in.q, g.q, at, full);
        load_async(in.k, g.k, at, full);
        load_async(in.v, g.v, at, full);
        load_async(in.dout, g.dout, at, full);
        if constexpr (Normalize) load_async(in.out, g.out, at, full);
    }
    kittens_device static void store(output& out, const task& t, int step, const globals& g) {
        store_async(g.dq, out, element_coord{t.batch, t.head, chunk * step, 0});
    }

    // y = k's sums with q's linear features as they count in the normaliser's gradient, and z in the normaliser.
    kittens_device static void look_at_pairs(part_tile& y, part_tile& z, const rt_bf<16, 16>& q, workspace& copy_of) {
        rt_bf<16, 32> lines, halves;
        rt_bf<16, 16> one, scaled;
        fill(one, 1.f);
        right_fill(one, one, 1);
        mul(scaled, q, linear);
        place(lines, scaled, 0, 0);
        place(lines, one, 0, 1);
        mul(scaled, q, square / linear);
        place(halves, scaled, 0, 0);
        place(halves, one, 0, 1);
        warpgroup::mm_AB(y, lines, subtile<32, feature_dim>(copy_of.pairs, 0, 0));
        warpgroup::mm_AB(z, halves, subtile<32, feature_dim>(copy_of.pairs, 0, 0));
        warpgroup::mma_wait(y, z);
    }

    template <typename Stream> kittens_device static void consume(Stream& s, const task& t, const globals& g) {
        workspace& copy_of = s.own();
        const int first = 16 * warp_in_group();
        state<Normalize> sums;
        sums.clear();
        for (int step = 0; step < t.steps; step++) {
            input& in = s.take();
            rt_bf<16, 16> q;
            rt_fl<16, chunk> scores, products;
            row_numbers total, delta;
            part_tile dq;
            warpgroup::sync(1);  // no warp reads the old copy any more
            base::store_copies(copy_of, sums);
            fence_async();
            if constexpr (Normalize) {
                rt_bf<16, value_dim> dout, out;
                rt_fl<16, value_dim> terms;
                warpgroup::load(dout, in.dout);
                warpgroup::load(out, in.out);
                copy(terms, dout);
                map(terms, terms, out, ops::mul{});
                row_sum(delta, terms);
            }
            warpgroup::load(q, in.q);
            warpgroup::mm_ABt(scores, q, in.k);
            warpgroup::mm_ABt(products, in.dout, in.v);
            warpgroup::mma_wait(scores, products);

            rt_bf<16, chunk> of_scores;
            if constexpr (Normalize) sub_row(products, products, delta);
            map(products, products, scores, [](float a, float x) { return a * slope(x); });
            tril(products, products, first);
            copy(of_scores, products);
            warpgroup::mm_AB(dq, of_scores, in.k);
            if constexpr (Normalize) {
                map(scores, scores, [](float x) { return 1.f + x * (linear + x * square); });
                tril(scores, scores, first);
                row_sum(total, scores);
            }
            warpgroup::sync(1);       // the copy is there
            warpgroup::mma_wait(dq);  // its operand leaves its registers
            base::add_features(dq, q, in.dout, copy_of);
            if constexpr (Normalize) {
                part_tile y, z;
                row_numbers before;
                look_at_pairs(y, z, q, copy_of);
                mul_row(y, y, delta);
                map(dq, dq, y, [](float a, float b) { return a - linear * b; });
                map(z, z, q, [](float a, float b) { return a * b * linear; });
                row_sum(before, z);
                const float rows_before = float(chunk * step);
                map(total, total, before, [=](float a, float b) { return 1.f / (a + b + rows_before + 1e-6f); });
                mul_row(dq, dq, total);
                map(delta, delta, total, [](float a, float b) { return -a * b; });
                kittens::store(g.rows, total, element_coord{t.batch, t.head, of_weights, chunk * step + first});
                kittens::store(g.rows, delta, element_coord{t.batch, t.head, of_deltas, chunk * step + first});
            }
            warpgroup::store(s.ask(), dq);
            s.hand_over();
            rt_bf<16, chunk> f[groups];
            base::add_rows(sums, f, in.k, in.k, in.v);
            sums.wait_for();
            s.release();
        }
    }
};

template <bool Normalize> struct key_walk : gradient_walk<Normalize> {
    using base = gradient_walk<Normalize>;
    using typename base::task;
    struct input {
        narrow q, k;
        wide v, dout;
    };
    struct output {
        wide dv;
        narrow dk;
    };
    struct workspace {
        typename base::copies copy_of;
        wide scaled;    // e
        narrow deltas;  // c q
    };
    static constexpr int output_stages = 1;
    static constexpr int stages =
        limits::stages(3, sizeof(input), output_stages * (sizeof(output) + 2 * sizeof(semaphore)) + sizeof(workspace),
                       base::blocks_per_sm);
    struct globals {
        heads_of<narrow> q, k;
        heads_of<wide> v, dout;
        heads_of<narrow> dk;
        heads_of<wide> dv;
        numbers rows;
        matrices values, pairs;  // the gradient of the state after the last row, as R and y; data may be null
        segment_order order;
    };

    kittens_device static int row_of(const task& t, int step) { return chunk * (t.steps - 1 - step); }
    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        const element_coord at{t.batch, t.head, row_of(t, step), 0};
        load_async(in.q, g.q, at, full);
        load_async(in.k, g.k, at, full);
        load_async(in.v, g.v, at, full);
        load_async(in.dout, g.dout, at, full);
    }
    kittens_device static void store(output& out, const task& t, int step, const globals& g) {
        const element_coord at{t.batch, t.head, row_of(t, step), 0};
        store_async(g.dv, out.dv, at);
        store_async(g.dk, out.dk, at);
    }
    // e and c q of this warp's rows.
    kittens_device static void scale_rows(workspace& own, input& in, const task& t, int row, const globals& g) {
        rt_bf<16, value_dim> dout;
        rt_bf<16, feature_dim> q;
        row_numbers of;
        warpgroup::load(dout, in.dout);
        if constexpr (Normalize) {
            kittens::load(of, g.rows, element_coord{t.batch, t.head, of_weights, row});
            mul_row(dout, dout, of);
            warpgroup::load(q, in.q);
            kittens::load(of, g.rows, element_coord{t.batch, t.head, of_deltas, row});
            mul_row(q, q, of);
            warpgroup::store(own.deltas, q);
        }
        warpgroup::store(own.scaled, dout);
    }

    template <typename Stream> kittens_device static void consume(Stream& s, const task& t, const globals& g) {
        workspace& own = s.own();
        const int first = 16 * warp_in_group();
        state<Normalize> sums;
        sums.clear();
        if (g.values.data) {
#pragma unroll
            for (int i = 0; i < groups; i++)
                warpgroup::load(sums.values[i], g.values, element_coord{t.of_all, 0, chunk * i, 0});
            if constexpr (Normalize) warpgroup::load(sums.pairs, g.pairs, element_coord{t.of_all, 0, 0, 0});
        }
        for (int step = 0; step < t.steps; step++) {
            input& in = s.take();
            const int row = row_of(t, step);
            rt_bf<16, 16> k;
            rt_fl<16, chunk> scores, products;
            rt_bf<16, chunk> weights, of_scores;
            warpgroup::sync(1);  // no warp reads the old copies any more
            base::store_copies(own.copy_of, sums);
            scale_rows(own, in, t, row + first, g);
            fence_async();
            warpgroup::load(k, in.k);
            warpgroup::mm_ABt(scores, k, in.q);
            warpgroup::sync(1);  // the copies are there
            warpgroup::mm_ABt(products, in.v, own.scaled);
            warpgroup::mma_wait(scores, products);

            if constexpr (Normalize) {
                typename rt_fl<16, chunk>::row_vec deltas;
                kittens::load(deltas, g.rows, element_coord{t.batch, t.head, of_deltas, row});
                add_col(products, products, deltas);
            }
            map(products, products, scores, [](float a, float x) { return a * slope(x); });
            triu(products, products, first);
            copy(of_scores, products);
            map(scores, scores, [](float x) { return 1.f + x * (linear + x * square); });
            triu(scores, scores, first);
            copy(weights, scores);
            rt_fl<16, value_dim> dv;
            part_tile dk, y;
            warpgroup::mm_AB(dk, of_scores, in.q);
            warpgroup::mm_AB(dv, weights, own.scaled);
            warpgroup::mma_wait<1>(dk);  // its operand leaves its registers
            second_order_queries<bf16> of_k;
            of_k.make(k, linear, square);
            kernel<Normalize>::look_back(dv, y, of_k, own.copy_of);
            if constexpr (Normalize) warpgroup::mma_wait(dv, y);
            else warpgroup::mma_wait(dv);
            output& out = s.ask();
            warpgroup::store(out.dv, dv);
            if constexpr (Normalize) map(dk, dk, y, [](float a, float b) { return a + linear * b; });
            base::add_features(dk, k, in.v, own.copy_of);
            warpgroup::store(out.dk, dk);
            s.hand_over();
            rt_bf<16, chunk> f[groups];
            base::add_rows(sums, f, in.q, own.deltas, own.scaled);
            sums.wait_for();
            s.release();
        }
    }
};

}  // namespace tk::based
