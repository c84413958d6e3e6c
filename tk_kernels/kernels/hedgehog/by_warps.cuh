// Hedgehog for GPUs without a copy engine: what it computes is in ../hedgehog/hedgehog.cuh. Four warps, of 16 rows
// each, copy, multiply and carry the state themselves (cp.async, ldmatrix, mma.sync).
//
// A block of the grid has half of the values' columns of a sequence (or of a segment of it), so that the state takes
// 64 registers a thread; both halves compute the scores and the features. For each block of 64 rows the warps take the
// window's weights, add the block before to the state, and begin to load the next block in its place. The features of
// keys lie over the keys that they were made of: they are a transposed operand, and nothing else needs those any more.
//
// shared memory  maps 32 KB, 2 blocks of keys and values 48 KB, state's copy 16.5 KB, ones 2 KB: 98.5 KB
// registers      state 64, O 32, scores 64 or keys' features 64, weights 32
#pragma once

#include "window.cuh"

namespace tk::hedgehog {

constexpr int value_parts = 2;

// Without `answers`: no output, only what each segment adds to the state.
template <bool answers> struct warps_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int columns = dim / value_parts;

    using values = st_bf<rows, columns>;
    struct input {
        tile k;
        values v;
    };
    using state = state_part<columns>;
    using state_tiles = signs<st_bf<features, columns>>;
    using state_sums = signs<sv_fl<features>>;
    struct shared {
        map_tile *k_map, *q_map;
        input* ring;
        ones_tile* ones;
        state_tiles* state;
        state_sums* sums;

        kittens_device explicit shared(shared_allocator& memory)
            : k_map(memory.allocate<map_tile>("k_map")),
              ring(memory.allocate<input>("ring", 2)),
              ones(memory.allocate<ones_tile>("ones")) {
            if constexpr (answers) {
                q_map = memory.allocate<map_tile>("q_map");
                state = memory.allocate<state_tiles>("state");
                sums = memory.allocate<state_sums>("sums");
            }
        }
        kittens_device input& at(int block) { return ring[block % 2]; }
    };
    static constexpr int shared_bytes =
        int(sizeof(map_tile)) + 2 * int(sizeof(input)) + int(sizeof(ones_tile)) +
        (answers ? int(sizeof(map_tile)) + int(sizeof(state_tiles)) + int(sizeof(state_sums)) : 0);
    static_assert(shared_bytes <= limits::shared_bytes, "hedgehog: exceeds a block's shared memory");

    struct globals {
        heads_of<> q;
        heads_of<tile> k;
        heads_of<values> v;
        heads_of<> o;
        heads_of<map_tile> q_map, k_map;
        const float *alpha, *beta;
        state_list before;   // of each segment but the first: the state that it starts from
        state_list after;    // what is asked for: what each segment adds (no queries), or the last state (if `finals`)
        bool finals, whole;  // whole: the last block is complete
        segment_order order;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s(memory);
        if (warp_index() == 0) {
            rt_bf<16, rows> all;
            one(all);
            store(*s.ones, all);
        }
        task t;
        for (int index = block_index(); find_task<answers>(t, g, index / value_parts); index += block_count()) {
            const int column = index % value_parts * columns;  // the first of the values
            state sum;
            if (answers && t.begin > 0)
                sum.each_part(
                    g.before, t.sequence, t.segment - 1, [](auto& part, auto& from, auto at) { load(part, from, at); },
                    column);
            else sum.clear();
            group<warps>::copy_async(*s.k_map, g.k_map, coord{0, t.head, 0, 0});
            if constexpr (answers) group<warps>::copy_async(*s.q_map, g.q_map, coord{0, t.head, 0, 0});
            fetch(s, g, t, column, t.first);
            if constexpr (answers) {
                if (t.begin > t.first) fetch(s, g, t, column, t.begin);
                for (int block = t.begin; block < t.end; block++) step(s, sum, g, t, column, block);
            } else {
                for (int block = t.first; block < t.add - 1; block++) {
                    arrived();
                    if (block + 2 < t.add) fetch(s, g, t, column, block + 1);
                    add(s, sum, s.at(block));
                }
                arrived();
            }
            if (!answers || (g.finals && t.end == g.order.blocks))
                sum.each_part(
                    g.after, t.sequence, answers ? 0 : t.segment,
                    [](auto& part, auto& to, auto at) { store(to, part, at); }, column, column == 0);
        }
    }

    kittens_device static void fetch(shared& s, const globals& g, const task& t, int column, int block) {
        group<warps>::copy_async(s.at(block).k, g.k, coord{t.batch, t.head, block, 0});
        group<warps>::copy_async(s.at(block).v, g.v, element_coord{t.batch, t.head, rows * block, column});
        copy_commit();
    }
    // What was fetched is there, for all warps; what they stored before, too.
    kittens_device static void arrived() {
        copy_wait();
        sync_block();
    }

    // state += phi(k) (x) v. Afterwards all warps are done with the block.
    kittens_device static void add(shared& s, state& sum, input& of) {
        block_scores x, p;
        mm_AB(x, subtile<16, dim>(of.k, warp_index(), 0), *s.k_map);
        sync_block();  // all warps are done with the keys
        row_softmax<1>(p, x, least_feature);
        store(subtile<16, features>(of.k, warp_index(), 0), p);
        row_softmax<-1>(p, x, least_feature);
        store(subtile<16, features>(of.k, warp_index(), 1), p);
        fence_async();  // these, and what was copied and stored before
        sync_block();   // the features are there
        auto &plus = subtile<rows, features>(of.k, 0, 0), &minus = subtile<rows, features>(of.k, 0, 1);
        rt_fl<16, 16> plus_count, minus_count;  // a column of the sums, sixteen times
        warpgroup::mma_AtB(sum.plus, plus, of.v);
        warpgroup::mma_AtB(sum.minus, minus, of.v);
        warpgroup::mm_AtBt(plus_count, plus, *s.ones);
        warpgroup::mm_AtBt(minus_count, minus, *s.ones);
        warpgroup::mma_wait(sum.plus, sum.minus, plus_count, minus_count);
        rows_vec added;
        row_max(added, plus_count);
        kittens::add(sum.plus_sum, sum.plus_sum, added);
        row_max(added, minus_count);
        kittens::add(sum.minus_sum, sum.minus_sum, added);
        sync_block();  // all warps are done with the values
    }

    // One block of rows: `sum` goes as far as the block before the one before it, and takes that one up.
    kittens_device static void step(shared& s, state& sum, const globals& g, const task& t, int column, int block) {
        input &before = s.at(block + 1), &here = s.at(block);
        const element_coord place{t.batch, t.head, rows * block + 16 * warp_index(), 0};
        warpgroup::store(s.state->plus, sum.plus), warpgroup::store(s.state->minus, sum.minus);
        warpgroup::store(s.sums->plus, sum.plus_sum), warpgroup::store(s.sums->minus, sum.minus_sum);
        arrived();
        // Rows behind the tensor's end are not stored: any will do.
        const element_coord queries{t.batch, t.head, place.r < g.q.rows() ? place.r : 0, 0};
        rt_bf<16, dim> q;
        block_scores x, p, far, near;
        rt_bf<16, rows> weights, near_weights;
        rows_vec total;
        rt_fl<16, columns> o;
        load_pairs(q, g.q, queries);
        if (block > 0) mm_ABt(far, q, before.k);
        else fill(far, -INFINITY);
        mm_ABt(near, q, here.k);
        weigh_window(far, near, total, g.beta[t.head]);
        copy(weights, far);
        copy(near_weights, near);
        mm_AB(o, near_weights, here.v);
        if (block > 0) {
            mma_AB(o, weights, before.v);
            if (block < t.add) add(s, sum, before);  // but for a last block, behind which nothing is fetched
        }
        if (block + 1 < t.end) fetch(s, g, t, column, block + 1);

        const float sign = g.beta[t.head] < 0 ? -1.f : 1.f, alpha = sign * g.alpha[t.head];
        load_pairs(q, g.q, queries);
        mm_AB(x, q, *s.q_map);
        row_softmax<1>(p, x, least_feature, alpha);
        copy(weights, p);
        mma_AB(o, weights, s.state->plus);
        row_dot_partial(total, weights, s.sums->plus);
        row_softmax<-1>(p, x, least_feature, alpha);
        copy(weights, p);
        mma_AB(o, weights, s.state->minus);
        row_dot_partial(total, weights, s.sums->minus);
        row_sum_finish(total);
        map(total, total, [=](float sum) { return 1.f / (sum + sign * normaliser_offset); });
        mul_row(o, o, total);
        store(g.o, o, element_coord{place.b, place.d, place.r, column});
        sync_block();  // all warps are done with the state's copy
    }
};

}  // namespace tk::hedgehog
