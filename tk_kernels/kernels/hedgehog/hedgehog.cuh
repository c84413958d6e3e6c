// Hedgehog attention as LoLCATs linearises it: softmax weights within a window of 64-row blocks (a query block sees
// itself causally and the block before), linear attention with softmax features on all earlier blocks, one normaliser.
//
// A block of the grid walks along a sequence (one head of one batch entry, or a segment of it), 64 rows at a time. Its
// warpgroups have roles that run beside one another:
//   loader   q, k and v of the next block, by TMA, into a ring of `stages`
//   keeper   holds the state, sum of phi(k) (x) v, in registers in fp32: hands a bf16 copy to the queries, then adds
//            the block before: phi(k) through shared memory, so that it can be a transposed operand
//   queries  phi(q), the window's scores and weights, all in registers; O = W V + phi(q) state in one accumulator;
//            divides; stores through the q tile
// The copy at block I covers the blocks up to I - 2. No key needs a mask but those of the query's own block: the state
// takes complete blocks alone, and a row sees no row behind its own.
//
// shared memory  maps 32 KB, ring 3 x 48 KB, state's copy 32.5 KB, phi(k) 16 KB, ones 2 KB: 226.5 KB
// registers      keeper: state 128, scores and features 64; queries: scores 64, features 32, weights 32, O 64
// head dim 128, any number of rows: zeros on load, clipped on store; few sequences are cut into segments (README.md)
// B16 H16 N16384 takes 1.85 ms on an H200, 2.3 TB/s of what has to be read and written: 56 % of what a copy reaches
// there
#pragma once

#include "lcf_carry.cuh"
#include "window.cuh"

namespace tk::hedgehog {

struct keys_and_values {
    tile k, v;
};
struct all_rows : keys_and_values {
    tile q;
};

// Without `answers`: no output, only what each segment adds to the state.
template <bool answers> struct kernel {
    static constexpr int stages = 3, consumers = answers ? 2 : 1;
    static constexpr int consumer_registers = answers ? limits::consumer_registers(24) : 0;

    using input = std::conditional_t<answers, all_rows, keys_and_values>;
    struct resident {
        map_tile k, q;
        static constexpr int bytes = answers ? 2 * map_tile::bytes : map_tile::bytes;
    };
    using feature_tiles = signs<st_bf<rows, features>>;
    using state_tiles = signs<st_bf<features, dim>>;
    using state_sums = signs<sv_fl<features>>;
    struct workspace {
        feature_tiles* phi;
        ones_tile* ones;
        state_tiles* state;
        state_sums* sums;

        kittens_device explicit workspace(shared_allocator& memory)
            : phi(memory.allocate<feature_tiles>("phi")), ones(memory.allocate<ones_tile>("ones")) {
            if constexpr (answers) state = memory.allocate<state_tiles>("state");
            if constexpr (answers) sums = memory.allocate<state_sums>("sums");
        }
    };
    static constexpr int workspace_bytes = int(sizeof(feature_tiles)) + int(sizeof(ones_tile)) +
                                           (answers ? int(sizeof(state_tiles)) + int(sizeof(state_sums)) : 0);

    struct globals {
        heads_of<tile> q, k, v;
        heads_of<strip> o;
        heads_of<map_tile> q_map, k_map;
        const float *alpha, *beta;
        state_list before;   // of each segment but the first: the state that it starts from
        state_list after;    // what is asked for: what each segment adds (no queries), or the last state (if `finals`)
        bool finals, whole;  // whole: the last block is complete
        segment_order order;
    };
    using task = hedgehog::task;

    kittens_device static bool get_task(task& t, const globals& g, int i) {
        return find_task<answers>(t, g, block_index() + i * block_count());
    }

    kittens_device static void prefetch(const globals& g) { prefetch_maps(g.q, g.k, g.v, g.o); }
    kittens_device static void load(input& into, const task& t, int block, semaphore& full, const globals& g) {
        const coord place{t.batch, t.head, block, 0};
        if constexpr (answers) load_async(into.q, g.q, place, full);
        load_async(into.k, g.k, place, full);
        load_async(into.v, g.v, place, full);
    }
    kittens_device static void load_resident(resident& maps, const task& t, semaphore& full, const globals& g) {
        load_async(maps.k, g.k_map, coord{0, t.head, 0, 0}, full);
        if constexpr (answers) load_async(maps.q, g.q_map, coord{0, t.head, 0, 0}, full);
    }

    // --- keeper ---------------------------------------------------------------------------------------------------
    struct state : state_part<dim> {
        using state_part<dim>::plus, state_part<dim>::minus, state_part<dim>::plus_sum, state_part<dim>::minus_sum;
        block_scores x;

        // x = k W, ahead of its block's turn
        kittens_device void project(const resident& maps, const input& of) { warpgroup::mm_AB(x, of.k, maps.k); }

        // state += phi(k) (x) v of a block whose x is there; then projects the next one.
        template <typename Stream> kittens_device void add(Stream& s, int block, int next) {
            const input& of = s.step(block);
            feature_tiles& phi = *s.own().phi;
            block_scores p;
            row_softmax<1>(p, x, least_feature);
            warpgroup::store(phi.plus, p);
            row_softmax<-1>(p, x, least_feature);
            warpgroup::store(phi.minus, p);
            fence_async();
            warpgroup::sync(consumers);
            rt_fl<16, 16> plus_count, minus_count;  // a column of the sums, sixteen times
            warpgroup::mma_AtB(plus, phi.plus, of.v);
            warpgroup::mma_AtB(minus, phi.minus, of.v);
            warpgroup::mm_AtBt(plus_count, phi.plus, *s.own().ones);
            warpgroup::mm_AtBt(minus_count, phi.minus, *s.own().ones);
            project(s.held(), s.step(next));
            warpgroup::mma_wait(plus, minus, plus_count, minus_count, x);
            rows_vec added;
            row_max(added, plus_count);
            kittens::add(plus_sum, plus_sum, added);
            row_max(added, minus_count);
            kittens::add(minus_sum, minus_sum, added);
            warpgroup::sync(consumers);  // phi may be written again
        }
    };

    template <typename Shared> kittens_device static void carry(Shared& shared, const globals& g) {
        if (warp_in_group() == 0) {
            rt_bf<16, rows> all;
            one(all);
            store(*shared.own->ones, all);
            fence_async();
        }
        warpgroup::sync(consumers);
        state sum;
        typename Shared::walk s{shared};
        task t;
        int copies = 0;
        for (int i = 0; get_task(t, g, i); i++) {
            s.begin(t);
            if (answers && t.begin > 0)
                sum.each_part(g.before, t.sequence, t.segment - 1,
                              [](auto& part, auto& from, auto at) { kittens::load(part, from, at); });
            else sum.clear();
            s.hold();
            sum.project(s.held(), s.step(t.first));
            warpgroup::mma_wait(sum.x);
            for (int block = t.begin; block < t.add; block++) {
                if constexpr (answers) hand_over(s, sum, copies++);
                if (block > 0) sum.add(s, block - 1, block < t.end ? block : block - 1);
                s.release_before(block);
            }
            if constexpr (answers)
                if (t.add < t.end) hand_over(s, sum, copies++);
            s.release_held();
            s.release_before(t.end);
            if (!answers || (g.finals && t.end == g.order.blocks))
                sum.each_part(g.after, t.sequence, answers ? 0 : t.segment,
                              [](auto& part, auto& to, auto at) { kittens::store(to, part, at); });
        }
    }
    template <typename Stream> kittens_device static void hand_over(Stream& s, const state& sum, int n) {
        s.ask(n);
        warpgroup::store(s.own().state->plus, sum.plus), warpgroup::store(s.own().state->minus, sum.minus);
        warpgroup::store(s.own().sums->plus, sum.plus_sum), warpgroup::store(s.own().sums->minus, sum.minus_sum);
        s.hand_over();
    }

    // --- queries --------------------------------------------------------------------------------------------------
    template <typename Shared> kittens_device static void compute(Shared& shared, const globals& g) {
        typename Shared::walk s{shared};
        task t;
        int copies = 0;
        for (int i = 0; get_task(t, g, i); i++) {
            s.begin(t);
            s.hold();
            for (int block = t.begin; block < t.end; block++) answer(s, g, t, block, copies++);
            s.release_held();
            store_read_wait();
            s.release_before(t.end);
        }
    }

    template <typename Stream>
    kittens_device static void answer(Stream& s, const globals& g, const task& t, int block, int n) {
        input& before = s.step(block > 0 ? block - 1 : 0);  // hidden from the first block
        input& here = s.step(block);
        // With a negative beta everything changes its sign, so that the window's weights can be powers of two.
        const float beta = g.beta[t.head], sign = beta < 0 ? -1.f : 1.f, alpha = sign * g.alpha[t.head];
        block_scores x, p, far, near;
        rt_bf<16, rows> plus, minus, far_weights, near_weights;
        rows_vec total;
        warpgroup::mm_AB(x, here.q, s.held().q);
        warpgroup::mm_ABt(far, here.q, before.k);
        warpgroup::mm_ABt(near, here.q, here.k);
        store_read_wait();  // this warp's output has left the q tile of its block before
        warpgroup::mma_wait<2>(x);
        row_softmax<1>(p, x, least_feature, alpha);
        copy(plus, p);
        row_softmax<-1>(p, x, least_feature, alpha);
        copy(minus, p);
        warpgroup::mma_wait(far, near);

        if (block == 0) fill(far, -INFINITY);
        weigh_window(far, near, total, beta);
        copy(far_weights, far);
        copy(near_weights, near);

        rt_fl<16, dim> o;
        s.take_copy(n);
        warpgroup::mm_AB(o, far_weights, before.v);
        warpgroup::mma_AB(o, near_weights, here.v);
        warpgroup::mma_AB(o, plus, s.own().state->plus);
        warpgroup::mma_AB(o, minus, s.own().state->minus);
        row_dot_partial(total, plus, s.own().sums->plus);
        row_dot_partial(total, minus, s.own().sums->minus);
        row_sum_finish(total);
        map(total, total, [=](float sum) { return 1.f / (sum + sign * normaliser_offset); });
        settle(total);
        warpgroup::mma_wait(o);
        s.release_copy();
        s.release_before(block);
        mul_row(o, o, total);
        warpgroup::sync(1);  // q has been read by all of the warps' multiplies
        auto& output = subtile<16, dim>(here.q, warp_in_group(), 0);
        store(output, o);
        fence_async();
        store_async(g.o, output, element_coord{t.batch, t.head, rows * block + 16 * warp_in_group(), 0});
    }
};

}  // namespace tk::hedgehog
