// One kernel a family of operations, for any element type, shape and layout; which operation of the family is chosen
// when it runs. tile_cases.py writes the table of instances, and says in NumPy's words what each operation does.
#pragma once

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "kittens.cuh"

using namespace kittens;

// What Python hands over: matrices with their extents, and the case's own numbers.
struct arguments {
    void* in[3];
    void* out;
    int rows[4], cols[4];  // of in[0 .. 2] and out; row strides are `cols` rounded up to `pitch`
    int pitch;
    int op;
    int numbers[4];
    float value;
};

template <typename T, typename... Tiles> using matrix = gl<T, 1, 1, dynamic, dynamic, Tiles...>;

template <typename Matrix> Matrix tensor(const arguments& a, int which) {
    void* data = which < 3 ? a.in[which] : a.out;
    const int64_t stride = (a.cols[which] + a.pitch - 1) / a.pitch * a.pitch;
    return Matrix(static_cast<typename Matrix::T*>(data), 1, 1, a.rows[which], a.cols[which], stride, 0, 0);
}

template <typename Globals, int Warps = 1> struct family {
    using globals = Globals;
    static constexpr int warps = Warps, cluster_blocks = 1, blocks_per_sm = 1;
};

template <typename A, typename B, typename C, typename D> struct operands {
    A a;
    B b;
    C c;
    D out;
    int op, numbers[4];
    float value;

    explicit operands(const arguments& x)
        : a(tensor<A>(x, 0)),
          b(tensor<B>(x, 1)),
          c(tensor<C>(x, 2)),
          out(tensor<D>(x, 3)),
          op(x.op),
          numbers{x.numbers[0], x.numbers[1], x.numbers[2], x.numbers[3]},
          value(x.value) {}
};
template <typename T> using one_type = operands<matrix<T>, matrix<T>, matrix<T>, matrix<T>>;

// --- registers ------------------------------------------------------------------------------------------------
template <typename T, int R, int C, layout L> struct maps : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rt<T, R, C, L> x, y, z;
        load(x, g.a, coord{});
        load(y, g.b, coord{});
        const float v = g.value;
        switch (g.op) {
            case 0: zero(z); break;
            case 1: one(z); break;
            case 2: fill(z, v); break;
            case 3: copy(z, x); break;
            case 4: exp(z, x); break;
            case 5: exp2(z, x); break;
            case 6: log(z, x); break;
            case 7: log2(z, x); break;
            case 8: abs(z, x); break;
            case 9: neg(z, x); break;
            case 10: relu(z, x); break;
            case 11: sqrt(z, x); break;
            case 12: rsqrt(z, x); break;
            case 13: tanh(z, x); break;
            case 14: add(z, x, y); break;
            case 15: sub(z, x, y); break;
            case 16: mul(z, x, y); break;
            case 17: div(z, x, y); break;
            case 18: max(z, x, y); break;
            case 19: min(z, x, y); break;
            case 20: add(z, x, v); break;
            case 21: sub(z, x, v); break;
            case 22: mul(z, x, v); break;
            case 23: div(z, x, v); break;
            case 24: max(z, x, v); break;
            case 25: min(z, x, v); break;
            case 26: copy(z, x), add(z, z, y); break;  // in place
            case 27: map(z, x, [](float e) { return math::log1p(e); }); break;
            case 28: map(z, x, [](float e) { return math::reciprocal(e); }); break;
        }
        store(g.out, z, coord{});
    }
};

template <typename T, int R, int C, layout L> struct broadcasts : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        using tile = rt<T, R, C, L>;
        tile x, z;
        typename tile::col_vec down;    // one value a row
        typename tile::row_vec across;  // one value a column
        load(x, g.a, coord{});
        load(down, g.b, coord{});
        load(across, g.c, coord{});
        switch (g.op) {
            case 0: add_row(z, x, down); break;
            case 1: sub_row(z, x, down); break;
            case 2: mul_row(z, x, down); break;
            case 3: div_row(z, x, down); break;
            case 4: add_col(z, x, across); break;
            case 5: sub_col(z, x, across); break;
            case 6: mul_col(z, x, across); break;
            case 7: div_col(z, x, across); break;
            case 8: broadcast_row(z, down); break;
            case 9: broadcast_col(z, across); break;
        }
        store(g.out, z, coord{});
    }
};

template <typename T, int R, int C, layout L> struct reductions : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        using tile = rt<T, R, C, L>;
        tile x;
        typename tile::col_vec down, old_down;
        typename tile::row_vec across, old_across;
        load(x, g.a, coord{});
        load(old_down, g.b, coord{});
        load(old_across, g.c, coord{});
        switch (g.op) {
            case 0: row_sum(down, x); break;
            case 1: row_max(down, x); break;
            case 2: row_min(down, x); break;
            case 3: row_prod(down, x); break;
            case 4: row_sum(down, x, old_down); break;
            case 5: row_max(down, x, old_down); break;
            case 6: zero(down), row_sum_partial(down, x), row_sum_partial(down, x), row_sum_finish(down); break;
            case 7: col_sum(across, x); break;
            case 8: col_max(across, x); break;
            case 9: col_min(across, x); break;
            case 10: col_prod(across, x); break;
            case 11: col_sum(across, x, old_across); break;
            case 12: col_max(across, x, old_across); break;
            case 13: row_max_partial(down, x), row_max_finish(down); break;
        }
        if (g.op < 7 || g.op == 13) store(g.out, down, coord{});
        else store(g.out, across, coord{});
    }
};

// Softmax of the rows (op 0) or of the rows with the other sign (1), at least 1/64 and three times that.
template <typename T, int R, int C, layout L> struct softmaxes : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rt<T, R, C, L> x, z;
        load(x, g.a, coord{});
        if (g.op == 0) row_softmax<1>(z, x, 1.f / 64, g.value);
        else row_softmax<-1>(z, x, 1.f / 64, g.value);
        store(g.out, z, coord{});
    }
};

// A tile of any type times a vector of fp32, added to what a vector holds.
template <typename T, int R, int C, layout L> struct row_products
    : family<operands<matrix<T>, matrix<float>, matrix<float>, matrix<float>>> {
    using globals = operands<matrix<T>, matrix<float>, matrix<float>, matrix<float>>;
    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto& weights = *memory.allocate<sv_fl<C>>("weights");
        rv_fl<C> across;
        load(across, g.b, coord{});
        store(weights, across);
        sync_block();
        rt<T, R, C, L> x;
        typename rt<float, R, C, L>::col_vec down;
        load(x, g.a, coord{});
        zero(down);
        row_dot_partial(down, x, weights);
        row_dot_partial(down, x, weights);
        row_sum_finish(down);
        store(g.out, down, coord{});
    }
};

// Matrices that are kept as they are (op 0, 2) or transposed (1, 3): loaded (0, 1) or stored (2, 3).
template <typename T, int R, int C> struct either_orders : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rt<T, R, C> x;
        const element_coord at{0, 0, g.numbers[0], g.numbers[1]};
        if (g.op < 2) {
            load(x, either_order<matrix<T>>{g.a, g.op == 0}, at);
            store(g.out, x, coord{});
        } else {
            load(x, g.a, coord{});
            store(either_order<matrix<T>>{g.out, g.op == 2}, x, at);
        }
    }
};

// phi(q) phi(k)^T of 64 rows each: what the features of both sides make of one another.
template <typename T> struct second_orders : family<operands<matrix<T>, matrix<T>, matrix<float>, matrix<float>>, 4> {
    using globals = operands<matrix<T>, matrix<T>, matrix<float>, matrix<float>>;
    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto* tiles = memory.allocate<st<T, 64, 64>>("features of k", second_order_groups);
        rt<T, 16, 16> q;
        rt<T, 64, 16, layout::col> k;
        rt<T, 16, 64> kt, f[second_order_groups];
        warpgroup::load(q, g.a, element_coord{});
        load(k, g.b, coord{});
        transpose_layout(kt, k);
        warpgroup::second_order_keys(f, kt);
        for (int i = 0; i < second_order_groups; i++) warpgroup::store(tiles[i], f[i]);
        fence_async();
        sync_block();
        second_order_queries<T> of_q;
        of_q.make(q, 0.25f, 0.03125f);
        rt_fl<16, 64> weights;
        warpgroup::mm_AB(weights, of_q.first, tiles[0]);
        warpgroup::mma_AB(weights, of_q.second, tiles[1]);
        warpgroup::mma_AB(weights, of_q.lines, subtile<32, 64>(tiles[2], 0, 0));
        warpgroup::mma_AB(weights, of_q.last, subtile<16, 64>(tiles[2], 2, 0));
        warpgroup::mma_wait(weights);
        warpgroup::store(g.out, weights, element_coord{});
    }
};

// Decays and weights of 64 steps, in base 2: scores (op 0) and values (1, transposed) with their factors, and the two
// factors of the state, a row each (2: at each step, 3: at the end).
template <typename T> struct decays : family<operands<matrix<float>, matrix<float>, matrix<T>, matrix<float>>, 4> {
    using globals = operands<matrix<float>, matrix<float>, matrix<T>, matrix<float>>;
    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto& factors = *memory.allocate<decay_factors>("factors");
        auto& values = *memory.allocate<st<T, 64, 64>>("values");
        if (warp_index() == 3) {
            rv_fl<decay_steps> a, log_weight;
            load(a, g.a, coord{});
            load(log_weight, g.b, coord{});
            make_factors(factors, a, log_weight, g.value);
        }
        group<4>::load(values, g.c, coord{});
        sync_block();
        rt<T, 16, 64> x;
        rt_fl<16, 16> state;
        rt_fl<16, 16>::col_vec by;
        if (g.op == 0) {
            rt_fl<16, 64> scores;
            warpgroup::load(scores, values);
            warpgroup::decay_scores(x, scores, factors);
        } else if (g.op == 1) {
            warpgroup::load_decayed(x, values, factors);
        } else {
            if (g.op == 2) warpgroup::load(by, factors.grown);
            else kittens::load(by, factors.decay);
            broadcast_row(state, by);
            return warpgroup::store(g.out, state, element_coord{});
        }
        warpgroup::store(g.out, x, element_coord{});
    }
};

template <typename T, int R, int C, layout L> struct masks : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rt<T, R, C, L> x, z;
        load(x, g.a, coord{});
        const int n = g.numbers[0];
        switch (g.op) {
            case 0: tril(z, x, n, g.value); break;
            case 1: triu(z, x, n, g.value); break;
            case 2: make_causal(z, x, g.value); break;
            case 3: right_fill(z, x, n, g.value); break;
            case 4: left_fill(z, x, n, g.value); break;
            case 5: lower_fill(z, x, n, g.value); break;
            case 6: upper_fill(z, x, n, g.value); break;
        }
        store(g.out, z, coord{});
    }
};

// From one element type to another; 16-bit tiles also change layout, are transposed and cut.
template <typename From, typename To, int R, int C, layout L>
struct conversions : family<operands<matrix<From>, matrix<From>, matrix<From>, matrix<To>>> {
    kittens_device static void run(const operands<matrix<From>, matrix<From>, matrix<From>, matrix<To>>& g) {
        rt<From, R, C, L> x;
        rt<To, R, C, L> z;
        load(x, g.a, coord{});
        copy(z, x);
        store(g.out, z, coord{});
    }
};
template <typename T, int R, int C, layout L> struct layouts : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rt<T, R, C, L> x;
        load(x, g.a, coord{});
        if (g.op == 0) {
            rt<T, R, C, L == layout::row ? layout::col : layout::row> z;
            swap_layout(z, x);
            store(g.out, z, coord{});
        } else if (g.op == 1) {
            rt<T, C, R, L> z;
            transpose(z, x);
            store(g.out, z, coord{});
        } else {
            rt<T, 16, 16, L> z;
            part(z, x, g.numbers[0], g.numbers[1]);
            if (g.op == 2) return store(g.out, z, coord{});
            place(x, z, g.numbers[2], g.numbers[3]);
            store(g.out, x, coord{});
        }
    }
};

// The same registers as the transposed matrix.
template <typename T, int R, int C, layout L> struct transposed_layouts : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rt<T, R, C, L> x;
        rt<T, C, R, L == layout::row ? layout::col : layout::row> z;
        load(x, g.a, coord{});
        transpose_layout(z, x);
        store(g.out, z, coord{});
    }
};

// Rows turned by any number (op 0) or by a constant (1), columns by a constant (2), and in place (3).
template <typename T, int Other> struct rotations : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        if (g.op < 2) {
            rt<T, 16, Other> x, z;
            load(x, g.a, coord{});
            if (g.op == 0) rotate_rows(z, x, g.numbers[0]);
            else by_constant(g.numbers[0], [&]<int By>() { rotate_rows<By>(z, x); });
            store(g.out, z, coord{});
        } else {
            rt<T, Other, 16> x, z;
            load(x, g.a, coord{});
            by_constant(g.numbers[0], [&]<int By>() { g.op == 2 ? rotate_cols<By>(z, x) : rotate_cols<By>(x, x); });
            if (g.op == 3) copy(z, x);
            store(g.out, z, coord{});
        }
    }
    template <typename F> kittens_device static void by_constant(int by, F f) {
        switch (by) {
            case 0: f.template operator()<0>(); break;
            case 1: f.template operator()<1>(); break;
            case 4: f.template operator()<4>(); break;
            case 7: f.template operator()<7>(); break;
            case 8: f.template operator()<8>(); break;
            case 11: f.template operator()<11>(); break;
            case 14: f.template operator()<14>(); break;
            case 15: f.template operator()<15>(); break;
        }
    }
};

// --- vectors --------------------------------------------------------------------------------------------------
template <typename T, int N, vec_layout L> struct vectors : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rv<T, N, L> x, y, z;
        load(x, g.a, coord{});
        load(y, g.b, coord{});
        shared_allocator memory;
        auto& s = *memory.allocate<sv<T, N>>("vector");
        switch (g.op) {
            case 0: add(z, x, y); break;
            case 1: mul(z, x, g.value); break;
            case 2: exp(z, x); break;
            case 3: max(z, x, y); break;
            case 4: fill(z, sum(x)); break;
            case 5: fill(z, max(x)); break;
            case 6: fill(z, min(x)); break;
            case 7: through<vec_layout::ortho>(z, x); break;
            case 8: through<vec_layout::align>(z, x); break;
            case 9: through<vec_layout::naive>(z, x); break;
            case 10: store(s, x), sync_block(), load(z, s); break;
            case 12: {
                const element_coord at{0, 0, g.numbers[2], g.numbers[1]};
                prefetch_row<N>(g.a, element_coord{});  // nothing to see but that it does no harm
                prefetch_column<N>(g.c, at);
                load_column(z, g.c, at);
                break;
            }
            case 13: fill(z, value_at(x, g.numbers[1])); break;
            case 14:
                if constexpr (L == vec_layout::naive) cumulative_sum(z, x);
                break;
            case 11: settle(x), fill(z, any(x, [](float v) { return v == 8.f; }) ? 1.f : 2.f); break;
        }
        store(g.out, z, coord{0, 0, 0, g.numbers[0]});
    }
    template <vec_layout Other> kittens_device static void through(rv<T, N, L>& z, const rv<T, N, L>& x) {
        rv<T, N, Other> y;
        copy(y, x);
        copy(z, y);
    }
};

// --- memory ---------------------------------------------------------------------------------------------------
// Register type TR, in memory TM; scope 1: a warp, 4: a warpgroup, whose tile has 4 R rows.
template <typename TR, typename TM, int R, int C, layout L, int Scope> struct shared_moves
    : family<one_type<TM>, Scope> {
    kittens_device static void run(const one_type<TM>& g) {
        shared_allocator memory;
        auto* tiles = memory.allocate<st<TM, Scope * R, C>>("tiles", 2);
        rt<TR, R, C, L> x, y;
        if constexpr (Scope == 1) {
            load(x, g.a, coord{});
            store(tiles[1], x);
            load(y, tiles[1]);
            store(g.out, y, coord{});
        } else {
            warpgroup::load(x, g.a, element_coord{});
            warpgroup::store(tiles[1], x);
            warpgroup::sync(1);
            warpgroup::load(y, tiles[1]);
            warpgroup::store(g.out, y, element_coord{});
        }
    }
};

// A warp's quarter of a warpgroup's tile, transposed: R of its columns, and all of its rows.
template <typename T, int R, int C> struct transposed_loads : family<one_type<T>, 4> {
    kittens_device static void run(const one_type<T>& g) {
        shared_allocator memory;
        auto& tile = *memory.allocate<st<T, C, 4 * R>>("tile");
        group<4>::load(tile, g.a, coord{});
        sync_block();
        rt<T, R, C> x;
        warpgroup::load_transposed(x, tile);
        warpgroup::store(g.out, x, element_coord{});
    }
};

// Values of a shared vector at the rows of a warpgroup's tile: each warp its own.
template <typename TR, typename TM, int R> struct group_vector_loads : family<one_type<TM>, 4> {
    kittens_device static void run(const one_type<TM>& g) {
        shared_allocator memory;
        auto& vec = *memory.allocate<sv<TM, 4 * R>>("vector");
        group<4>::load(vec, g.a, coord{});
        sync_block();
        rt<TR, R, 16> x;
        typename rt<TR, R, 16>::col_vec values;
        warpgroup::load(values, vec);
        broadcast_row(x, values);
        warpgroup::store(g.out, x, element_coord{});
    }
};

// The largest of each row of a warpgroup's tile, from its warps' registers to one shared vector; TR there, TM in
// memory.
template <typename TR, typename TM, int R> struct group_vectors : family<one_type<TM>, 4> {
    kittens_device static void run(const one_type<TM>& g) {
        shared_allocator memory;
        auto& vec = *memory.allocate<sv<TM, 4 * R>>("vector");
        rt<TR, R, 16> x;
        typename rt<TR, R, 16>::col_vec largest;
        warpgroup::load(x, g.a, element_coord{});
        row_max(largest, x);
        warpgroup::store(vec, largest);
        warpgroup::sync(1);
        rv<TM, 4 * R> all;
        load(all, vec);
        if (warp_index() == 0) store(g.out, all, coord{});
    }
};

// At any corner of a tensor of any extents: zeros beyond its end, nothing stored there.
template <typename TR, typename TM, int R, int C, layout L, int Scope> struct global_moves
    : family<one_type<TM>, Scope> {
    kittens_device static void run(const one_type<TM>& g) {
        rt<TR, R, C, L> x;
        const element_coord from{0, 0, g.numbers[0], g.numbers[1]}, to{0, 0, g.numbers[2], g.numbers[3]};
        if constexpr (Scope == 1) {
            load(x, g.a, from);
            store(g.out, x, to);
        } else {
            warpgroup::load(x, g.a, from);
            warpgroup::store(g.out, x, to);
        }
    }
};

// Two elements at a time, at an even column; op 1: the row's elements alone, in fp32, for every row of the tile.
template <typename T, int R, int C> struct pair_loads : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        const element_coord from{0, 0, g.numbers[0], g.numbers[1]};
        rt<T, R, C> x;
        typename rt_fl<R, C>::row_vec across;
        prefetch_tile<R, C>(g.a, from);  // nothing to see but that it does no harm
        if (g.op == 0) load_pairs(x, g.a, from);
        else load_pairs(across, g.a, from), broadcast_col(x, across);
        store(g.out, x, coord{});
    }
};

// Stored two elements at a time, at an even column, inside the last column.
template <int R, int C> struct pair_stores : family<one_type<float>> {
    kittens_device static void run(const one_type<float>& g) {
        rt_fl<R, C> x;
        load(x, g.a, coord{});
        store_pairs(g.out, x, element_coord{0, 0, g.numbers[0], g.numbers[1]});
    }
};

// Rows numbers[1] on of a tile, numbers[0] of them, from shared vectors with a's rows; op 1: rows of a to shared
// vectors of -1.
template <typename T, int R, int C> struct vector_rows : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        shared_allocator memory;
        auto* vectors = memory.allocate<sv<T, C>>("vectors", R);
        auto* sums = memory.allocate<sv_fl<C>>("sums", R);
        const int count = g.numbers[0], first = g.numbers[1];
        if (g.op == 0) {
            rv<T, C> row;
            for (int i = 0; i < R; i++) {
                load(row, g.a, element_coord{0, 0, i, 0});
                store(vectors[i], row);
            }
            sync_warp();
            rt<T, R, C> x;
            load_rows(x, vectors, count, first);
            store(g.out, x, coord{});
            return;
        }
        rv_fl<C> row;
        fill(row, -1.f);
        for (int i = 0; i < R; i++) store(sums[i], row);
        sync_warp();
        rt_fl<R, C> x;
        load(x, g.a, coord{});
        store_rows(sums, x, count, first);
        sync_warp();
        for (int i = 0; i < R; i++) {
            load(row, sums[i]);
            store(g.out, row, element_coord{0, 0, i, 0});
        }
    }
};

// Kept packed in b, by a warp or a warpgroup, and read back; ops 1 and 2, of a warp, add to what b holds, from
// registers and from shared memory.
template <typename T, int R, int C, int Scope> struct packed_moves : family<one_type<T>, Scope> {
    kittens_device static void run(const one_type<T>& g) {
        const coord at{0, 0, g.numbers[0], g.numbers[1]};
        shared_allocator memory;
        auto& vector = *memory.allocate<sv<T, R * C>>("vector");
        rt<T, R, C> x, y;
        if constexpr (Scope == 1) {
            load(x, g.a, coord{});
            if (g.op == 0) store_packed(g.b, x, at);
            else if (g.op == 1) add_packed(g.b, x, at);
            else {
                store_packed(vector, x);
                fence_async();
                store_add_async(g.b, vector, at);
                store_wait();
            }
            load_packed(y, g.b, at);
            store(g.out, y, coord{});
        } else {
            warpgroup::load(x, g.a, element_coord{});
            warpgroup::store_packed(g.b, x, at);
            warpgroup::load_packed(y, g.b, at);
            warpgroup::store(g.out, y, element_coord{});
        }
    }
};

template <typename T, int R, int C, int Warps> struct group_moves : family<one_type<T>, Warps> {
    kittens_device static void run(const one_type<T>& g) {
        shared_allocator memory;
        auto& tile = *memory.allocate<st<T, R, C>>("tile");
        group<Warps>::load(tile, g.a, coord{0, 0, g.numbers[0], g.numbers[1]});
        sync_block();
        group<Warps>::store(g.out, tile, coord{0, 0, g.numbers[2], g.numbers[3]});
    }
};

// TMA there and back; op 1 adds to what is there, op 2 takes the tile's lower right 16 x chunk piece through registers.
template <typename T, int R, int C>
struct copies : family<operands<matrix<T, st<T, R, C>>, matrix<T>, matrix<T>, matrix<T, st<T, R, C>>>> {
    using globals = operands<matrix<T, st<T, R, C>>, matrix<T>, matrix<T>, matrix<T, st<T, R, C>>>;
    kittens_device static void run(const globals& g) {
        using tile_type = st<T, R, C>;
        shared_allocator memory;
        auto& tile = *memory.allocate<tile_type>("tile");
        auto& done = *memory.allocate<semaphore>("done");
        init(done, 1);
        sync_start();
        expect_bytes(done, tile_type::bytes);
        load_async(tile, g.a, element_coord{0, 0, g.numbers[0], g.numbers[1]}, done);
        wait(done, 0);
        const element_coord to{0, 0, g.numbers[2], g.numbers[3]};
        if (g.op == 0) {
            store_async(g.out, tile, to);
        } else if (g.op == 1) {
            if constexpr (sizeof(T) > 1) store_add_async(g.out, tile, to);
        } else {
            rt<T, 16, tile_type::chunk_cols> piece;
            load(piece, subtile<16, tile_type::chunk_cols>(tile, R / 16 - 1, tile_type::chunks - 1));
            store(g.out, piece, to);
        }
        store_wait();
    }
};

// A (batch, depth, rows, cols) tensor through four-dimensional maps: a tail never touches the next matrix. Op 1: from a
// place whose batch or depth may be past the end, to the first one.
template <typename T, int R, int C> struct copies_4d {
    using tensor_type = gl<T, dynamic, dynamic, dynamic, dynamic, st<T, R, C>>;
    struct globals {
        tensor_type in, out;
        int at[4], op;
        explicit globals(const arguments& x)
            : in(static_cast<T*>(x.in[0]), x.rows[1], x.cols[1], x.rows[0], x.cols[0]),
              out(static_cast<T*>(x.out), x.rows[1], x.cols[1], x.rows[0], x.cols[0]),
              at{x.numbers[0], x.numbers[1], x.numbers[2], x.numbers[3]},
              op(x.op) {}
    };
    static constexpr int warps = 1, cluster_blocks = 1, blocks_per_sm = 1;
    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto& tile = *memory.allocate<st<T, R, C>>("tile");
        auto& done = *memory.allocate<semaphore>("done");
        init(done, 1);
        sync_start();
        expect_bytes(done, st<T, R, C>::bytes);
        const coord at{g.at[0], g.at[1], g.at[2], g.at[3]};
        load_async(tile, g.in, g.op == 1 ? zero_beyond(g.in, at) : at, done);
        wait(done, 0);
        store_async(g.out, tile, g.op == 1 ? coord{} : at);
        store_wait();
    }
};

template <typename T, int N>
struct vector_copies : family<operands<matrix<T, sv<T, N>>, matrix<T>, matrix<T>, matrix<T, sv<T, N>>>> {
    using globals = operands<matrix<T, sv<T, N>>, matrix<T>, matrix<T>, matrix<T, sv<T, N>>>;
    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto& vec = *memory.allocate<sv<T, N>>("vector");
        auto& done = *memory.allocate<semaphore>("done");
        init(done, 1);
        sync_start();
        expect_bytes(done, sv<T, N>::bytes);
        load_async(vec, g.a, coord{0, 0, g.numbers[0], g.numbers[1]}, done);
        wait(done, 0);
        store_async(g.out, vec, coord{0, 0, g.numbers[2], g.numbers[3]});
        store_wait();
    }
};

// --- matrix multiply --------------------------------------------------------------------------------------------
// Form 0 .. 3: AB, ABt, AtB, AtBt; op 0 adds to C, op 1 does not.
template <typename T, int M, int N, int K, int Form>
struct multiplies : family<operands<matrix<T>, matrix<T>, matrix<float>, matrix<float>>> {
    using globals = operands<matrix<T>, matrix<T>, matrix<float>, matrix<float>>;
    static constexpr bool ta = Form >= 2, tb = Form % 2 == 1;
    kittens_device static void run(const globals& g) {
        rt<T, ta ? K : M, ta ? M : K, ta ? layout::col : layout::row> a;
        rt<T, tb ? N : K, tb ? K : N, tb ? layout::row : layout::col> b;
        rt<float, M, N> d;
        load(a, g.a, coord{});
        load(b, g.b, coord{});
        load(d, g.c, coord{});
        if constexpr (Form == 0) g.op == 0 ? mma_AB(d, a, b) : mm_AB(d, a, b);
        if constexpr (Form == 1) g.op == 0 ? mma_ABt(d, a, b) : mm_ABt(d, a, b);
        if constexpr (Form == 2) g.op == 0 ? mma_AtB(d, a, b) : mm_AtB(d, a, b);
        if constexpr (Form == 3) g.op == 0 ? mma_AtBt(d, a, b) : mm_AtBt(d, a, b);
        store(g.out, d, coord{});
    }
};

// The same by a warpgroup, asynchronously; A in shared memory or, for forms 0 and 1, in registers.
template <typename T, int M, int N, int K, int Form, bool InRegisters>
struct group_multiplies : family<operands<matrix<T>, matrix<T>, matrix<float>, matrix<float>>, 4> {
    using globals = operands<matrix<T>, matrix<T>, matrix<float>, matrix<float>>;
    static constexpr bool ta = Form >= 2, tb = Form % 2 == 1;
    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto& a = *memory.allocate<st<T, ta ? K : M, ta ? M : K>>("a");
        auto& b = *memory.allocate<st<T, tb ? N : K, tb ? K : N>>("b");
        group<4>::load(a, g.a, coord{});
        group<4>::load(b, g.b, coord{});
        rt<float, M / 4, N> d;
        warpgroup::load(d, g.c, element_coord{});
        fence_async();
        sync_block();
        if constexpr (InRegisters) {
            rt<T, M / 4, K> held;
            warpgroup::load(held, a);
            issue(d, held, b, g.op);
            warpgroup::mma_wait(d);
        } else {
            issue(d, a, b, g.op);
            warpgroup::mma_wait(d);
        }
        warpgroup::store(g.out, d, element_coord{});
    }
    template <typename D, typename A, typename B> kittens_device static void issue(D& d, const A& a, const B& b,
                                                                                   int op) {
        if constexpr (Form == 0) {
            if (op == 2) return warpgroup::mma_subtract_AB(d, a, b);
            op == 0 ? warpgroup::mma_AB(d, a, b) : warpgroup::mm_AB(d, a, b);
        }
        if constexpr (Form == 1) op == 0 ? warpgroup::mma_ABt(d, a, b) : warpgroup::mm_ABt(d, a, b);
        if constexpr (Form == 2) op == 0 ? warpgroup::mma_AtB(d, a, b) : warpgroup::mm_AtB(d, a, b);
        if constexpr (Form == 3) op == 0 ? warpgroup::mma_AtBt(d, a, b) : warpgroup::mm_AtBt(d, a, b);
    }
};

// Complex matrices, imaginary parts below the real ones. op: neither, the first or the second operand conjugated; or
// sums of two real products, of each part with its own and with the other.
template <typename T, int M, int N, int K, bool InRegisters>
struct complex_multiplies : family<operands<matrix<T>, matrix<T>, matrix<float>, matrix<float>>, 4> {
    using globals = operands<matrix<T>, matrix<T>, matrix<float>, matrix<float>>;
    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto& a = *memory.allocate<complex<st<T, M, K>>>("a");
        auto& b = *memory.allocate<complex<st<T, K, N>>>("b");
        group<4>::load(a.real, g.a, coord{}), group<4>::load(a.imag, g.a, coord{0, 0, 1, 0});
        group<4>::load(b.real, g.b, coord{}), group<4>::load(b.imag, g.b, coord{0, 0, 1, 0});
        fence_async();
        sync_block();
        complex<rt<float, M / 4, N>> d;
        if constexpr (InRegisters) {
            complex<rt<T, M / 4, K>> held;
            warpgroup::load(held, a);
            issue(d, held, b, g.op);
            warpgroup::mma_wait(d.real, d.imag);
        } else {
            issue(d, a, b, g.op);
            warpgroup::mma_wait(d.real, d.imag);
        }
        warpgroup::store(g.out, d.real, element_coord{});
        warpgroup::store(g.out, d.imag, element_coord{0, 0, M, 0});
    }
    template <typename D, typename A, typename B> kittens_device static void issue(D& d, const A& a, const B& b,
                                                                                   int op) {
        if (op == 0) warpgroup::mm_AB(d, a, b);
        else if (op == 1) warpgroup::mm_AB<conjugate::first>(d, a, b);
        else if (op == 2) warpgroup::mm_AB<conjugate::second>(d, a, b);
        else
            warpgroup::mm_AB(d.real, a.real, b.real, a.imag, b.imag),
                warpgroup::mm_AB(d.imag, a.imag, b.real, a.real, b.imag);
    }
};

template <typename T, int R, int C> struct complex_maps : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        complex<rt<T, R, C>> x, y, z;
        load(x.real, g.a, coord{}), load(x.imag, g.a, coord{0, 0, 1, 0});
        load(y.real, g.b, coord{}), load(y.imag, g.b, coord{0, 0, 1, 0});
        if (g.op == 0) mul(z, x, y);
        else if (g.op == 1) mul<conjugate::first>(z, x, y);
        else if (g.op == 2) mul<conjugate::second>(z, x, y);
        else copy(z, x);
        if (g.op < 4) {
            store(g.out, z.real, coord{}), store(g.out, z.imag, coord{0, 0, 1, 0});
        } else {
            complex<rt<T, 16, 16>> last;
            part(last, z, R / 16 - 1, C / 16 - 1);
            store(g.out, last.real, coord{}), store(g.out, last.imag, coord{0, 0, 1, 0});
        }
    }
};

// Two tiles whose halves are exchanged, of rows (op 0) or of columns (1); the second lies below the first.
template <typename T, int C> struct exchanges : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rt<T, 16, C> x, y;
        load(x, g.a, coord{}), load(y, g.a, coord{0, 0, 1, 0});
        if (g.op == 0) exchange_rows(x, y);
        else exchange_cols(x, y);
        store(g.out, x, coord{}), store(g.out, y, coord{0, 0, 1, 0});
    }
};

// Sums and differences of a complex tile's halves: of columns (op 0), of rows (1) and back (2), with w in b.
template <typename T, int C> struct butterflies : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        complex<rt<T, 16, C>> x;
        complex<typename rt<T, 16, C>::col_vec> w;
        load(x.real, g.a, coord{}), load(x.imag, g.a, coord{0, 0, 1, 0});
        load(w.real, g.b, coord{}), load(w.imag, g.b, coord{0, 0, 1, 0});
        if (g.op == 0) butterfly_cols(x);
        else if (g.op == 1) butterfly_rows(x, w);
        else butterfly_rows_back(x, w);
        store(g.out, x.real, coord{}), store(g.out, x.imag, coord{0, 0, 1, 0});
    }
};

// A warpgroup's tile of which each warp holds 8 rows of either half: loaded (op 0) or stored (1), TR in registers.
template <typename TR, typename TM, int C> struct halves : family<one_type<TM>, 4> {
    kittens_device static void run(const one_type<TM>& g) {
        shared_allocator memory;
        auto& tile = *memory.allocate<complex<st<TM, 64, C>>>("tile");
        complex<rt<TR, 16, C>> x;
        if (g.op == 0) {
            group<4>::load(tile.real, g.a, coord{}), group<4>::load(tile.imag, g.a, coord{0, 0, 1, 0});
            sync_block();
            if constexpr (std::is_same_v<TR, TM>) warpgroup::load_halves(x, tile);
            warpgroup::store(g.out, x.real, element_coord{}),
                warpgroup::store(g.out, x.imag, element_coord{0, 0, 64, 0});
        } else {
            warpgroup::load(x.real, g.a, element_coord{}), warpgroup::load(x.imag, g.a, element_coord{0, 0, 64, 0});
            warpgroup::store_halves(tile, x);
            sync_block();
            group<4>::store(g.out, tile.real, coord{}), group<4>::store(g.out, tile.imag, coord{0, 0, 1, 0});
        }
    }
};

// --- the table ------------------------------------------------------------------------------------------------
template <typename Kernel> void start(const arguments& a) {
    launch<Kernel>({1, limits::shared_bytes}, nullptr, typename Kernel::globals(a));
}
struct entry {
    const char* name;
    void (*start)(const arguments&);
};

inline int run_from(const entry* table, int count, const char* name, const arguments* a, char* message, int size) {
    for (int i = 0; i < count; i++) {
        if (std::strcmp(table[i].name, name) != 0) continue;
        try {
            table[i].start(*a);
            return 0;
        } catch (const std::exception& error) {
            std::snprintf(message, size, "%s", error.what());
            return 1;
        }
    }
    std::snprintf(message, size, "no such case");
    return 2;
}
