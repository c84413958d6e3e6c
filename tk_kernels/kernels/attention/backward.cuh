// Attention, backward: dQ, dK, dV of sum(O o dO) with O = softmax(scale Q K^T) V (Dao et al. 2022, algorithm 4). With
// P = exp(scale Q K^T - lse), which is softmax itself:
//   dV = P^T dO     dP = dO V^T     dS = P o (dP - delta), delta = row sums of dO o O     dK = scale dS^T Q     dQ = scale dS K
//
// rows_kernel     first: delta, and lse in base 2, for every row of queries; zeros for the sums of dQ
// keys_kernel     a block owns 128 keys of one head of keys and walks over the queries of every head that reads it
// queries_kernel  deterministic only: a block owns queries and walks over keys; dQ without atomic sums
// round_kernel    else, last: the sums of dQ, scaled, in bf16
//
// keys_kernel computes everything transposed, 64 keys a consumer warpgroup: S^T = K Q^T and dP^T = V dO^T from shared
// memory, so that P^T and dS^T are A operands in registers for dV += P^T dO and dK += dS^T Q. Only dQ = dS K needs both
// consumers' dS: each leaves its own in shared memory and computes 64 x 64 of dQ, which is added to the fp32 sums. That
// multiply runs a step late, and the next step's S^T is issued before this step's dK has ended: the tensor cores have
// work while exponentials are computed, and one consumer may run ahead of the other by half a step. A loop's body begins
// and ends with no multiply in flight whose result is read later: ptxas loses count across the back edge (README.md).
//
// shared memory  dim 128, 64 queries a step: K, V 64 KB, ring of 2 (Q, dO) 66 KB, dS 4 x 8 KB, dQ 32 KB: 194 KB
//                dim 64, 128 queries a step: K, V 32 KB, ring of 2 66 KB, dS 4 x 16 KB, dQ 32 KB: 194 KB
// registers      dK and dV dim, S and dP `queries`, P and dS in bf16 `queries`, dQ 32 a thread, not all at a time: 240
// any number of rows and keys: tails are zeros on load, P = 0 where nothing is seen, clipped on store
#pragma once

#include "heads.cuh"

namespace tk::attention {

inline constexpr float log2e = 1.4426950408889634f;

// What the kernels of the backward pass agree on, for one head dim.
template <int Dim> struct backward_tiles {
    static constexpr int queries = 8192 / Dim;  // of a step
    static constexpr int keys = 128;
    using strip = st_bf<16, Dim>;     // a warp's own rows, of what it stores
    using sum_strip = st_fl<16, 64>;  // the same of the sums of dQ
    using row_vector = sv_fl<queries>;
    using row_values_of = gl<float, dynamic, dynamic, 1, dynamic, row_vector>;  // (batch, head, 1, row), rows padded
    template <typename... Tiles> using sums = gl<float, dynamic, dynamic, dynamic, dynamic, Tiles...>;
};

// --- before: a block for 64 rows of queries --------------------------------------------------------------------
template <int Dim> struct rows_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 4;
    static constexpr int rows = 64;
    using tiles = backward_tiles<Dim>;
    using tile = st_bf<rows, Dim>;
    using sum_strip = typename tiles::sum_strip;
    static constexpr int shared_bytes = 2 * int(sizeof(tile)) + int(sizeof(sum_strip)) + int(sizeof(semaphore));
    struct globals {
        heads_of<tile> out, dout;
        row_values lse;
        typename tiles::row_values_of lse2, delta;
        typename tiles::template sums<sum_strip> dq;
        bool clear;  // dQ will be summed
        divisor heads, row_blocks;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile* in = memory.allocate<tile>("in", 2);
        sum_strip& zeros = *memory.allocate<sum_strip>("zeros");
        semaphore& loaded = *memory.allocate<semaphore>("loaded");
        const int index = g.row_blocks.divide(block_index()), batch = g.heads.divide(index);
        const int head = index - batch * g.heads.value, block = block_index() - index * g.row_blocks.value;
        const int row = block * rows + 16 * warp_in_group();
        if (warp_index() == 0) init(loaded, 1);
        sync_start();
        if (warp_index() == 0) {
            expect_bytes(loaded, 2 * tile::bytes);
            load_async(in[0], g.out, coord{batch, head, block, 0}, loaded);
            load_async(in[1], g.dout, coord{batch, head, block, 0}, loaded);
        } else if (warp_index() == 1 && g.clear) {
            rt_fl<16, 64> zero_strip;
            zero(zero_strip);
            store(zeros, zero_strip);
            fence_async();
            for (int r = 0; r < rows; r += 16)
                for (int c = 0; c < Dim; c += 64)
                    store_async(g.dq, zeros, element_coord{batch, head, block * rows + r, c});
        }
        // Rows that see nothing and rows beyond the last have P = exp2(S - infinity) = 0.
        rt_fl<16, 16>::col_vec lse, delta;
        load(lse, g.lse, element_coord{batch, head, 0, row});
        each([&](int i, float& x) { x = row + i < g.lse.cols() && x > -INFINITY ? x * log2e : INFINITY; }, lse);
        store(g.lse2, lse, element_coord{batch, head, 0, row});

        rt_bf<16, Dim> o, dout;
        rt_fl<16, Dim> product;
        wait(loaded, 0);
        warpgroup::load(o, in[0]);
        warpgroup::load(dout, in[1]);
        mul(product, o, dout);
        row_sum(delta, product);
        store(g.delta, delta, element_coord{batch, head, 0, row});
        store_read_wait();
    }
};

// --- main: a task for 128 keys ---------------------------------------------------------------------------------
// Who computes dQ: another kernel; this one, and TMA adds it to the sums from shared memory; or this one, and the threads
// that hold it add it.
enum class dq_sums { none, copied, direct };

template <int Dim, dq_sums Sums> struct keys_kernel {
    static constexpr bool sums_dq = Sums != dq_sums::none;
    using tiles = backward_tiles<Dim>;
    static constexpr int queries = tiles::queries, keys = tiles::keys;
    static constexpr int consumers = 2, consumer_registers = 240;
    static constexpr int stages = Dim == 128 && Sums != dq_sums::copied ? 3 : 2;
    static constexpr bool in_turns = false;  // the consumers issue S^T and dP^T one after the other

    using strip = typename tiles::strip;
    using sum_strip = typename tiles::sum_strip;
    struct tile {
        st_bf<queries, Dim> q, dout;
        typename tiles::row_vector lse, delta;
        static constexpr int bytes = 2 * decltype(q)::bytes + 2 * decltype(lse)::bytes;
    };
    struct resident {
        st_bf<keys, Dim> k, v;
    };
    struct output {
        st_bf<64, queries> ds[2];                                     // transposed: this consumer's keys
        sum_strip dq[Sums == dq_sums::copied ? warpgroup_warps : 1];  // a warp's own
    };
    struct globals {
        heads_of<st_bf<queries, Dim>> q, dout;
        heads_of<st_bf<keys, Dim>> k, v;
        typename tiles::row_values_of lse, delta;
        typename tiles::template sums<sum_strip> dq;
        heads_of<strip> dk, dv;
        float scale;
        visible_keys visible;
        tile_bands order;  // heads of keys x blocks of keys
        divisor heads_kv;
        int group, query_blocks;  // query heads that share a key head; steps that a head's queries make
    };
    struct task {
        int batch, head_kv, key, first, blocks, steps;  // first key; first block of queries and their number
    };
    struct place {
        int head, block;  // of queries
    };

    kittens_device static void prefetch(const globals& g) {
        prefetch_map<st_bf<queries, Dim>>(g.q);
        prefetch_map<st_bf<queries, Dim>>(g.dout);
        prefetch_map<st_bf<keys, Dim>>(g.k);
        prefetch_map<st_bf<keys, Dim>>(g.v);
    }

    // The first keys are seen by the most queries: they come first, in several heads at a time.
    kittens_device static bool get_task(task& t, const globals& g, int i) {
        const int index = block_index() + i * block_count();
        if (index >= g.order.tiles()) return false;
        const auto [head, block] = g.order.at(index);
        t.batch = g.heads_kv.divide(head);
        t.head_kv = head - t.batch * g.heads_kv.value;
        t.key = block * keys;
        t.first = g.visible.causal && t.key > g.visible.offset ? (t.key - g.visible.offset) / queries : 0;
        t.blocks = g.query_blocks - t.first;
        t.steps = g.group * t.blocks;
        return true;
    }

    kittens_device static void load_resident(resident& kv, const task& t, semaphore& full, const globals& g) {
        load_async(kv.k, g.k, element_coord{t.batch, t.head_kv, t.key, 0}, full);
        load_async(kv.v, g.v, element_coord{t.batch, t.head_kv, t.key, 0}, full);
    }

    kittens_device static void load(tile& in, const task& t, int step, semaphore& full, const globals& g) {
        const int turn = step / t.blocks, head = t.head_kv * g.group + turn, block = t.first + step - turn * t.blocks;
        load_async(in.q, g.q, coord{t.batch, head, block, 0}, full);
        load_async(in.lse, g.lse, coord{t.batch, head, 0, block}, full);
        load_async(in.dout, g.dout, coord{t.batch, head, block, 0}, full);
        load_async(in.delta, g.delta, coord{t.batch, head, 0, block}, full);
    }

    // A consumer's walk over the queries: what it holds from step to step.
    template <typename Stream> struct walk {
        Stream& s;
        output& out;
        const task& t;
        const globals& g;
        resident& kv;
        place at, before;  // the step's queries, and those of the step before
        rt_fl<16, queries> p, ds;
        rt_bf<16, queries> p_bf, ds_bf;
        rt_fl<16, Dim> dk, dv;
        rt_fl<16, 64> dq;

        kittens_device walk(Stream& s_, output& out_, const task& t_, const globals& g_)
            : s(s_), out(out_), t(t_), g(g_), kv(s_.hold()), at{t_.head_kv * g_.group, t_.first}, before(at) {}

        // S^T of the queries that come next; under way when this returns.
        kittens_device tile& begin() {
            tile& in = s.take();
            if constexpr (in_turns) s.in_turn();
            warpgroup::mm_ABt(p, subtile<64, Dim>(kv.k, s.consumer, 0), in.q);
            return in;
        }

        // P^T and dS^T, once S^T is there.
        kittens_device void weights(tile& in) {
            typename rt_fl<16, queries>::row_vec lse, delta;
            const float scale = g.scale * log2e;
            warpgroup::mm_ABt(ds, subtile<64, Dim>(kv.v, s.consumer, 0), in.dout);
            if constexpr (in_turns) s.pass_turn();
            kittens::load(lse, in.lse);
            warpgroup::mma_wait<1>(p);
            map_cols(p, p, lse, [=](float x, float l) { return math::exp2(x * scale - l); });
            hide(p, g.visible, at.block * queries, t.key, t.key + 64 * s.consumer + 16 * warp_in_group());
            kittens::load(delta, in.delta);
            warpgroup::mma_wait(ds);
            sub_col(ds, ds, delta);
            mul(ds, ds, p);
            copy(p_bf, p);
            copy(ds_bf, ds);
        }

        // Step i's share of the gradients, the step before's of dQ; then the weights of the next step.
        template <bool First, bool Last> kittens_device tile* step(tile& in, int i) {
            warpgroup::mma_AB(dv, p_bf, in.dout);
            if constexpr (sums_dq) {
                if constexpr (!First) multiply_dq(i - 1);
                warpgroup::store(out.ds[i % 2], ds_bf);
                fence_async();
            }
            warpgroup::mma_AB(dk, ds_bf, in.q);
            if constexpr (sums_dq) {
                if constexpr (!First) warpgroup::mma_wait<1>(dq);
                arrive_named(told(s.consumer, i), all_warps);  // dS is there, and that of the step before is free
                if constexpr (!First) add_dq();
            }
            before = at;
            if (++at.block == g.query_blocks) at.block = t.first, at.head++;
            if constexpr (Last) {
                warpgroup::mma_wait(dk, dv);
                s.release();
                return nullptr;
            } else {
                tile& next = begin();
                warpgroup::mma_wait<1>(dk, dv);
                s.release();
                weights(next);
                return &next;
            }
        }

        // dQ = dS K of a step: this consumer's 64 x 64 of it, rows of the step's queries or columns of the head.
        kittens_device void multiply_dq(int i) {
            sync_named(told(1 - s.consumer, i), all_warps);
            const int row = queries == 128 ? s.consumer : 0, col = Dim == 128 ? s.consumer : 0;
#pragma unroll
            for (int half = 0; half < consumers; half++)
                warpgroup::mma_AtB(dq, subtile<64, 64>(s.s.results[half].ds[i % 2], 0, row),
                                   subtile<64, 64>(kv.k, half, col), half);
        }
        // A warp adds its own rows to the sums, so that no warp waits for another.
        kittens_device void add_dq() {
            const int row = before.block * queries + 16 * warp_in_group() + (queries == 128 ? 64 * s.consumer : 0);
            const element_coord to{t.batch, before.head, row, Dim == 128 ? 64 * s.consumer : 0};
            if constexpr (Sums == dq_sums::direct) {
                store_add(g.dq, dq, to);
                return;
            }
            sum_strip& mine = out.dq[warp_in_group()];
            store_read_wait();  // the step before has left it
            store(mine, dq);
            fence_async();
            store_add_async(g.dq, mine, to);
        }

        kittens_device void finish() {
            if constexpr (sums_dq) {
                multiply_dq(t.steps - 1);
                warpgroup::mma_wait(dq);
                add_dq();
            }
            sync_named(5, all_warps);  // nobody reads K and V any more: they make room for dK and dV
            const int strips = 4 * s.consumer + warp_in_group(), key = t.key + 16 * strips;
            auto& dk_strip = subtile<16, Dim>(kv.k, strips, 0);
            auto& dv_strip = subtile<16, Dim>(kv.v, strips, 0);
            mul(dk, dk, g.scale);
            store(dk_strip, dk);
            store(dv_strip, dv);
            fence_async();
            store_async(g.dk, dk_strip, element_coord{t.batch, t.head_kv, key, 0});
            store_async(g.dv, dv_strip, element_coord{t.batch, t.head_kv, key, 0});
            store_read_wait();
            s.release_held();
        }

        // The barrier at which a consumer tells the other that its dS of a step is there.
        kittens_device static int told(int consumer, int i) { return 1 + 2 * consumer + i % 2; }
        static constexpr int all_warps = consumers * warpgroup_warps;
    };

    template <typename Stream>
    kittens_device static void consume(Stream& s, output& out, const task& t, const globals& g) {
        walk<Stream> w(s, out, t, g);
        zero(w.dk);
        zero(w.dv);
        tile* in = &w.begin();
        w.weights(*in);
        if (t.steps == 1) {
            w.template step<true, true>(*in, 0);
        } else {
            in = w.template step<true, false>(*in, 0);
            for (int i = 1; i < t.steps - 1; i++) in = w.template step<false, false>(*in, i);
            w.template step<false, true>(*in, t.steps - 1);
        }
        w.finish();
    }

    // P = 0 for keys that a query does not see: of a warp's 16 keys from `key` on and of queries from `query` on. Blocks
    // of keys, from `first_key` on, that all the queries see wholly are left as they are.
    kittens_device static void hide(rt_fl<16, queries>& p, const visible_keys& visible, int query, int first_key,
                                    int key) {
        if (first_key + keys <= visible.before(query + 1)) return;
        const int last = query + visible.offset - key, tail = visible.keys - key;
        if (visible.causal) mask(p, p, [=](int r, int c) { return r <= last + c && r < tail; }, 0.f);
        else lower_fill(p, p, tail, 0.f);
    }
};

// --- deterministic: a task for 128 rows of queries ---------------------------------------------------------------
template <int Dim> struct queries_kernel {
    using tiles = backward_tiles<Dim>;
    static constexpr int rows = 128, keys = 8192 / Dim;
    static constexpr int consumers = 2, consumer_registers = 240, stages = 3;

    using strip = typename tiles::strip;
    struct tile {
        st_bf<keys, Dim> k, v;
    };
    struct resident {
        st_bf<rows, Dim> q, dout;
    };
    struct output {
        strip dq[warpgroup_warps];  // a warp's own
    };
    struct globals {
        heads_of<st_bf<rows, Dim>> q, dout;
        heads_of<st_bf<keys, Dim>> k, v;
        typename tiles::row_values_of lse, delta;
        heads_of<strip> dq;
        float scale;
        visible_keys visible;
        divisor heads, row_blocks;
        int group, tasks;
    };
    struct task {
        int batch, head, head_kv, row, steps;
    };

    kittens_device static void prefetch(const globals& g) {
        prefetch_map<st_bf<rows, Dim>>(g.q);
        prefetch_map<st_bf<rows, Dim>>(g.dout);
        prefetch_map<st_bf<keys, Dim>>(g.k);
        prefetch_map<st_bf<keys, Dim>>(g.v);
    }

    // The last rows see the most keys: they come first.
    kittens_device static bool get_task(task& t, const globals& g, int i) {
        const int index = block_index() + i * block_count();
        if (index >= g.tasks) return false;
        const int head = g.row_blocks.divide(index);
        t.batch = g.heads.divide(head);
        t.head = head - t.batch * g.heads.value;
        t.head_kv = t.head / g.group;
        t.row = (g.row_blocks.value * (head + 1) - 1 - index) * rows;
        const int end = t.row + rows < g.q.rows() ? t.row + rows : g.q.rows();
        t.steps = (g.visible.before(end) + keys - 1) / keys;
        return true;
    }

    kittens_device static void load_resident(resident& in, const task& t, semaphore& full, const globals& g) {
        load_async(in.q, g.q, element_coord{t.batch, t.head, t.row, 0}, full);
        load_async(in.dout, g.dout, element_coord{t.batch, t.head, t.row, 0}, full);
    }

    kittens_device static void load(tile& in, const task& t, int step, semaphore& full, const globals& g) {
        load_async(in.k, g.k, coord{t.batch, t.head_kv, step, 0}, full);
        load_async(in.v, g.v, coord{t.batch, t.head_kv, step, 0}, full);
    }

    template <typename Stream>
    kittens_device static void consume(Stream& s, output& out, const task& t, const globals& g) {
        rt_fl<16, keys> p, ds;
        rt_bf<16, keys> ds_bf;
        rt_fl<16, Dim> dq;
        rt_fl<16, 16>::col_vec lse, delta;
        resident& held = s.hold();
        auto& q = subtile<64, Dim>(held.q, s.consumer, 0);
        auto& dout = subtile<64, Dim>(held.dout, s.consumer, 0);
        const float scale = g.scale * log2e;
        const int row = t.row + 64 * s.consumer + 16 * warp_in_group();
        kittens::load(lse, g.lse, element_coord{t.batch, t.head, 0, row});
        kittens::load(delta, g.delta, element_coord{t.batch, t.head, 0, row});

        zero(dq);
        const auto weights = [&](tile& in, int step) {
            warpgroup::mm_ABt(ds, dout, in.v);
            warpgroup::mma_wait<1>(p);
            map_rows(p, p, lse, [=](float x, float l) { return math::exp2(x * scale - l); });
            g.visible.hide(p, row, step * keys, 0.f);
            warpgroup::mma_wait(ds);
            sub_row(ds, ds, delta);
            mul(ds, ds, p);
            copy(ds_bf, ds);
        };
        if (t.steps > 0) {
            tile* in = &s.take();
            warpgroup::mm_ABt(p, q, in->k);
            weights(*in, 0);
            for (int step = 1; step < t.steps; step++) {
                warpgroup::mma_AB(dq, ds_bf, in->k);
                in = &s.take();
                warpgroup::mm_ABt(p, q, in->k);
                warpgroup::mma_wait<1>(dq);
                s.release();
                weights(*in, step);
            }
            warpgroup::mma_AB(dq, ds_bf, in->k);
            warpgroup::mma_wait(dq);
            s.release();
        }
        s.release_held();
        mul(dq, dq, g.scale);
        strip& mine = out.dq[warp_in_group()];
        store_read_wait();  // the task before has left it
        store(mine, dq);
        fence_async();
        store_async(g.dq, mine, element_coord{t.batch, t.head, row, 0});
    }
};

// --- after: a block for 64 rows of queries ----------------------------------------------------------------------
template <int Dim> struct round_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 4;
    static constexpr int rows = 64;
    using tiles = backward_tiles<Dim>;
    using strip = typename tiles::strip;
    using sum_tile = st_fl<rows, Dim>;
    static constexpr int shared_bytes = int(sizeof(sum_tile)) + warps * int(sizeof(strip)) + int(sizeof(semaphore));
    struct globals {
        typename tiles::template sums<sum_tile> sum;
        heads_of<strip> dq;
        float scale;
        divisor heads, row_blocks;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        sum_tile& sum = *memory.allocate<sum_tile>("sum");
        strip* out = memory.allocate<strip>("out", warps);
        semaphore& loaded = *memory.allocate<semaphore>("loaded");
        const int index = g.row_blocks.divide(block_index()), batch = g.heads.divide(index);
        const int head = index - batch * g.heads.value, block = block_index() - index * g.row_blocks.value;
        if (warp_index() == 0) init(loaded, 1);
        sync_start();
        if (warp_index() == 0) {
            expect_bytes(loaded, sum_tile::bytes);
            load_async(sum, g.sum, coord{batch, head, block, 0}, loaded);
        }
        rt_fl<16, Dim> dq;
        wait(loaded, 0);
        warpgroup::load(dq, sum);
        mul(dq, dq, g.scale);
        store(out[warp_index()], dq);
        fence_async();
        store_async(g.dq, out[warp_index()], coord{batch, head, 4 * block + warp_index(), 0});
        store_read_wait();
    }
};

}  // namespace tk::attention
