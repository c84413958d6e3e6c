// Attention, backward: dQ, dK, dV of sum(O o dO) with O = softmax(scale Q K^T) V (Dao et al. 2022, algorithm 4). With
// P = exp(scale Q K^T - lse), which is softmax itself:
//   dV = P^T dO     dP = dO V^T     dS = P o (dP - delta), delta = row sums of dO o O
//   dK = scale dS^T Q     dQ = scale dS K
//
// rows_kernel     first: delta, and lse in base 2 (backward_rows.cuh)
// keys_kernel     a task is 128 keys of one head of keys and the queries of every head that reads it
// round_sums      last: the sums of dQ, scaled, in bf16 (the library's)
// queries_kernel  instead, where results must repeat: dQ without atomic sums (backward_queries.cuh)
//
// keys_kernel computes everything transposed, 64 keys a consumer warpgroup: S^T = K Q^T and dP^T = V dO^T from shared
// memory, so that P^T and dS^T are A operands in registers for dV += P^T dO and dK += dS^T Q. Only dQ = dS K needs both
// consumers' dS: each leaves its own in shared memory and computes 64 x 64 of dQ, which is added to the fp32 sums. That
// multiply runs a step late, and the next step's S^T is issued before this step's dK has ended: the tensor cores have
// work while exponentials are computed, and one consumer may run ahead of the other by half a step. A loop's body
// begins and ends with no multiply in flight whose result is read later: ptxas loses count across the back edge
// (README.md).
//
// Who waits for whom in step i of a consumer; multiplies in the order in which they are issued, <- what comes before:
//   dV += P^T dO
//   dQ(i - 1) = dS(i - 1) K   <- the other has told that its dS(i - 1) is in shared memory
//   dK += dS^T Q              <- own dS(i) is there too, which the other is told <- dQ(i - 1) has read both dS(i - 1)
//   S^T(i + 1) = K Q^T        <- the loader's tile i + 1; at dim 64, the turn, which the other passes after its dP^T
//   (tile i is released)      <- dV, dK; the loader fills the stage again when both consumers have released it
//   dP^T(i + 1) = V dO^T      then the turn is passed; P(i + 1) <- S^T(i + 1); dS(i + 1) <- dP^T(i + 1)
//
// Blocks are persistent and take tasks from a queue. The next task's K, Q and dO arrive under this one's last steps,
// its V once dV has left by way of the old one. The kernels start early, each while the one before it ends.
//
// shared memory  dim 128, 64 queries a step: K twice, V 96 KB, ring of 2 (Q, dO) 65 KB, dS 4 x 8 KB, dQ 32 KB: 225 KB
//                dim 64, 128 queries a step: K, V twice 64 KB, ring of 2 65 KB, dS 4 x 16 KB, dQ 32 KB: 225 KB
// registers      dK and dV dim, S and dP `queries`, P and dS in bf16 `queries`, dQ 32 a thread, not all at a time: 240
// any number of rows and keys: tails are zeros on load, P = 0 where nothing is seen, clipped on store
#pragma once

#include "backward_rows.cuh"
#include "lcf_queue.cuh"

namespace tk::attention {

// SumsDq: computes dQ too, and adds it to the sums; otherwise another kernel does.
template <int Dim, bool SumsDq> struct keys_kernel {
    static constexpr int queries = step_queries<Dim>, keys = 128;
    static constexpr int consumers = 2, consumer_registers = limits::consumer_registers(24);
    static constexpr int stages = Dim == 128 && !SumsDq ? 3 : 2;
    static constexpr bool starts_early = true;  // behind rows_kernel
    // S^T and dP^T are issued by one consumer, then by the other: exponentials, which are half of dim 64's arithmetic,
    // meet less.
    static constexpr bool in_turns = Dim == 64;

    using strip = st_bf<16, Dim>;
    struct tile {
        st_bf<queries, Dim> q, dout;
        sv_fl<queries> lse, delta;
        static constexpr int bytes = 2 * decltype(q)::bytes + 2 * decltype(lse)::bytes;
    };
    using resident = st_bf<keys, Dim>;  // K, and V
    static constexpr int kept[] = {2,
                                   SumsDq && Dim == 64 ? 2 : 1};  // K of the next task comes under the end of this one
    struct shares_of_dq {
        st_bf<64, queries> ds[2];                                    // transposed: this consumer's keys
        sv_fl<sum_tile::rows * sum_tile::cols> dq[warpgroup_warps];  // a warp's own, packed
    };
    struct alignas(16) nothing {};
    using output = std::conditional_t<SumsDq, shares_of_dq, nothing>;
    struct globals : operands<Dim, queries, keys> {
        packed_sums<Dim> dq;
        heads_of<strip> dk, dv;
        float scale;
        seen_keys visible;
        tile_bands order;  // heads of keys x blocks of keys
        task_queue queue;
        divisor heads_kv;
        int group, query_blocks;  // query heads that share a key head; steps that a head's queries make
    };
    struct task {
        int batch, head_kv, key, first, end, blocks, steps;  // first key; blocks of queries: first, after last, number
    };
    struct place {
        int head, block;  // of queries
    };

    kittens_device static void prefetch(const globals& g) { prefetch_maps(g.q, g.dout, g.k, g.v); }

    // The first keys are seen by the most queries: they come first, in several heads at a time.
    kittens_device static void get_task(task& t, const globals& g, int number) {
        const auto [head, block] = g.order.at(number);
        t.batch = g.heads_kv.divide(head, t.head_kv);
        t.key = block * keys;
        t.first = g.visible.causal && t.key > g.visible.offset ? (t.key - g.visible.offset) / queries : 0;
        t.end = g.visible.queries_before(t.key + keys, queries, g.query_blocks);
        t.blocks = t.end - t.first;
        t.steps = g.group * t.blocks;
    }

    template <int Which>
    kittens_device static void load_resident(resident& kept, const task& t, semaphore& full, const globals& g) {
        load_async(kept, Which == 0 ? g.k : g.v, element_coord{t.batch, t.head_kv, t.key, 0}, full);
    }

    kittens_device static void load(tile& in, const task& t, int step, semaphore& full, const globals& g) {
        const int turn = step / t.blocks, head = t.head_kv * g.group + turn, block = t.first + step - turn * t.blocks;
        load_async(in.q, g.q, coord{t.batch, head, block, 0}, full);
        if (step == 0) start_next_kernel(), wait_previous_kernel();
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
        resident& k = s.take_first();
        resident* v = nullptr;
        const int warp = warp_in_group();                     // asked for in every step it would be a shuffle
        place at{t.head_kv * g.group, t.first}, before = at;  // the step's queries, and those of the step before
        rt_fl<16, queries> p, ds;
        rt_bf<16, queries> p_bf, ds_bf;
        rt_fl<16, Dim> dk, dv;
        sum_tile dq;

        kittens_device walk(Stream& s_, output& out_, const task& t_, const globals& g_)
            : s(s_), out(out_), t(t_), g(g_) {}

        // S^T of the queries that come next; under way when this returns.
        kittens_device tile& begin() {
            tile& in = s.take();
            if constexpr (in_turns) s.in_turn();
            warpgroup::mm_ABt(p, subtile<64, Dim>(k, s.consumer, 0), in.q);
            return in;
        }

        // P^T and dS^T, once S^T is there. P = 0 for keys that a query does not see.
        kittens_device void weights(tile& in) {
            typename rt_fl<16, queries>::row_vec lse, delta;
            const float scale = g.scale * log2_e;
            warpgroup::mm_ABt(ds, subtile<64, Dim>(unhoisted(*v), s.consumer, 0), in.dout);
            if constexpr (in_turns) s.pass_turn();
            kittens::load(lse, in.lse);
            warpgroup::mma_wait<1>(p);
            map_cols(p, p, lse, [=](float x, float l) { return x * scale - l; });
            kittens::load(delta, in.delta);  // arrives under the exponentials
            exp2(p, p);
            g.visible.template hide_transposed<keys>(p, at.block * queries, t.key, t.key + 64 * s.consumer + 16 * warp,
                                                     0.f);
            warpgroup::mma_wait(ds);
            sub_col(ds, ds, delta);
            mul(ds, ds, p);
            copy(p_bf, p);
            copy(ds_bf, ds);
        }

        // Step i's share of the gradients, the step before's of dQ; then the weights of the next step.
        template <bool First, bool Last> kittens_device tile* step(tile& in, int i) {
            constexpr bool late = SumsDq && !First;  // the step before left a share of dQ
            warpgroup::mma_AB(dv, p_bf, in.dout);
            if constexpr (late) multiply_dq(i - 1);
            if constexpr (SumsDq) kittens::store(subtile<16, queries>(out.ds[i % 2], warp, 0), ds_bf);
            warpgroup::mma_AB(dk, ds_bf, in.q);
            if constexpr (SumsDq) fence_async();  // runs under the multiply
            if constexpr (late) warpgroup::mma_wait<1>(dq);
            if constexpr (SumsDq)
                arrive_named(told(s.consumer, i), all_warps);  // dS is there, and that of the step before is free
            if constexpr (late) keep_dq();
            tile* const next = Last ? nullptr : &begin();
            if constexpr (late) add_dq();
            before = at;
            if (!Last && ++at.block == t.end) at.block = t.first, at.head++;
            warpgroup::mma_wait<Last ? 0 : 1>(dk, dv);
            s.release();
            if constexpr (!Last) weights(*next);
            return next;
        }

        // dQ = dS K of a step: this consumer's 64 x 64 of it, rows of the step's queries or columns of the head.
        kittens_device void multiply_dq(int i) {
            sync_named(told(1 - s.consumer, i), all_warps);
            const int row = queries == 128 ? s.consumer : 0, col = Dim == 128 ? s.consumer : 0;
#pragma unroll
            for (int half = 0; half < consumers; half++)
                warpgroup::mma_AtB(dq, subtile<64, 64>(s.s.results[half].ds[i % 2], 0, row),
                                   subtile<64, 64>(k, half, col), half);
        }
        // A warp adds its own rows to the sums, so that no warp waits for another: first to shared memory, which frees
        // the registers for the next scores; sent once those are under way, which hides the fence.
        template <int Pending = 0> kittens_device void keep_dq() {
            store_read_wait<Pending>();  // the step before has left it
            store_packed(out.dq[warp], dq);
        }
        kittens_device void add_dq() {
            const int row = before.block * queries / 16 + warp + (queries == 128 ? 4 * s.consumer : 0);
            const int column = Dim == 128 ? s.consumer : 0;
            fence_async();
            store_add_async(g.dq, out.dq[warp], coord{t.batch, before.head, row, column});
        }

        // dV leaves by way of V, of which a consumer alone reads its rows, under the last dQ; dK by way of K, which
        // both read for dQ. K is released in the next task, when dK has left it.
        kittens_device void finish() {
            if constexpr (SumsDq) multiply_dq(t.steps - 1);  // its barrier also says that the group has read V
            else warpgroup::sync(told(s.consumer, 0));
            put(g.dv, dv, *v);
            mul(dk, dk, g.scale);
            if constexpr (SumsDq) {
                warpgroup::mma_wait(dq);
                keep_dq<1>();
                add_dq();
                sync_named(5, all_warps);  // nobody reads K any more
            }
            store_read_wait<SumsDq ? 1 : 0>();  // dV
            s.release_second();
            put(g.dk, dk, k);
        }
        // This warp's 16 keys of a gradient.
        kittens_device void put(const heads_of<strip>& to, const rt_fl<16, Dim>& gradient, resident& by_way_of) {
            const int strips = 4 * s.consumer + warp;
            auto& own = subtile<16, Dim>(by_way_of, strips, 0);
            store(own, gradient);
            fence_async();
            store_async(to, own, element_coord{t.batch, t.head_kv, t.key + 16 * strips, 0});
        }

        // The barrier at which a consumer tells the other that its dS of a step is there.
        kittens_device static int told(int consumer, int i) { return 1 + 2 * consumer + i % 2; }
        static constexpr int all_warps = consumers * warpgroup_warps;
    };

    template <typename Stream>
    kittens_device static void consume(Stream& s, output& out, const task& t, const globals& g) {
        walk<Stream> w(s, out, t, g);
        zero(w.dk), zero(w.dv);
        tile* in = &w.begin();
        w.v = &s.take_second();
        w.weights(*in);
        store_read_wait();  // dK of the task before
        s.release_first_before();
        if (t.steps == 1) {
            w.template step<true, true>(*in, 0);
        } else {
            in = w.template step<true, false>(*in, 0);
            for (int i = 1; i < t.steps - 1; i++) in = w.template step<false, false>(*in, i);
            w.template step<false, true>(*in, t.steps - 1);
        }
        w.finish();
    }
};

}  // namespace tk::attention
