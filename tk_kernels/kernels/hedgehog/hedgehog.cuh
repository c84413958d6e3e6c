// Hedgehog attention as LoLCATs linearises it: softmax weights within a window of 64-row blocks (a query block sees
// itself causally and the block before), linear attention with softmax features on all earlier blocks, one normaliser.
//
// A block of the grid walks along a sequence (one head of one batch entry, or a segment of it), 64 rows at a time. Its
// warpgroups have roles that run beside one another:
//   loader   q, k and v of the next block, by TMA, into a ring of `stages`
//   keeper   holds the state, sum of phi(k) (x) v, in registers in fp32: hands a bf16 copy to the queries, then adds the
//            block before: phi(k) through shared memory, so that it can be a transposed operand
//   queries  phi(q), the window's scores and weights, all in registers; O = W V + phi(q) state in one accumulator; divides;
//            stores through the q tile
// The copy at block I covers the blocks up to I - 2. No key needs a mask but those of the query's own block: the state
// takes complete blocks alone, and a row sees no row behind its own.
//
// shared memory  maps 32 KB, ring 3 x 48 KB, state's copy 32.5 KB, phi(k) 16 KB, ones 2 KB: 226.5 KB
// registers      keeper: state 128, scores and features 64; queries: scores 64, features 32, weights 32, O 64
// head dim 128, any number of rows: zeros on load, clipped on store; few sequences are cut into segments (README.md)
// B16 H16 N16384 takes 1.85 ms on an H200, 2.3 TB/s of what has to be read and written: 56 % of what a copy reaches there
#pragma once

#include "kittens.cuh"

#include "hedgehog.h"

namespace tk::hedgehog {

using namespace kittens;

constexpr int rows = 64, dim = 128, features = 64;  // of a block; of q, k and v; of each sign of the map
constexpr float log2e = 1.4426950408889634f;
constexpr float window_scale = log2e * 0.08838834764831845f;  // 1 / sqrt(128), for powers of two
constexpr float least_feature = 1e-6f, normaliser_offset = 1e-6f;

using tile = st_bf<rows, dim>;
using map_tile = st_bf<dim, features>;
using feature_tile = st_bf<rows, features>;
using strip = st_bf<16, dim>;
using ones_tile = st_bf<16, rows>;
using block_scores = rt_fl<16, rows>;
using rows_vec = block_scores::col_vec;

template <typename... Tiles> using heads_of = gl<bf16, dynamic, dynamic, dynamic, dim, Tiles...>;
using maps_of = gl<bf16, 1, dynamic, dim, features, map_tile>;
// States of the sequences, several of each: (sequence, which, ...).
struct state_list {
    gl<float, dynamic, dynamic, 1, 2 * features> k;
    gl<float, dynamic, dynamic, 2 * features, dim> kv;
};

// p = scale times the softmax over each row of Sign * x, which is at least 1e-6.
template <int Sign> kittens_device void feature(block_scores& p, const block_scores& x, float scale = 1.f) {
    rows_vec top, total, least;
    if constexpr (Sign > 0) row_max(top, x);
    else row_min(top, x);
    mul(top, top, Sign * log2e);
    map_rows(p, x, top, [](float a, float t) { return math::exp2(a * (Sign * log2e) - t); });
    row_sum(total, p);
    mul(least, total, least_feature);
    map(total, total, [=](float sum) {
        const float root = math::rsqrt(sum);  // a division would branch, and keep the two signs apart
        return root * root * scale;
    });
    map_rows(p, p, least, ops::max{});  // before the scaling: a row that is no number stays none
    mul_row(p, p, total);
}

// Which blocks of which sequence are computed when: sequences in segments of equal length, the last one shorter.
struct segmentation {
    int blocks, per_segment, tasks;  // blocks of a sequence, of a segment; tasks in all
    divisor segments, heads;         // segments of a sequence that are computed
};

struct config {
    bool answers;  // else no output, only what each segment adds to the state
    int stages;
};

template <config C> struct kernel {
    static constexpr bool answers = C.answers;
    static constexpr int stages = C.stages, consumers = answers ? 2 : 1;
    static constexpr int warps = warpgroup_warps * (consumers + 1), cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int queries = 0, keeper = consumers - 1, loader = consumers;  // warpgroups
    static constexpr int consumer_registers = 240;
    using position = ring_position<stages>;

    struct keys_and_values {
        tile k, v;
    };
    struct all_rows {
        tile k, v, q;
    };
    using input = std::conditional_t<answers, all_rows, keys_and_values>;
    struct map_pair {
        map_tile k, q;
    };
    struct state_tiles {
        st_bf<features, dim> plus, minus;
    };
    struct state_sums {
        sv_fl<features> plus, minus;
    };
    struct feature_tiles {
        feature_tile plus, minus;
    };
    static constexpr int map_bytes = answers ? 2 * map_tile::bytes : map_tile::bytes;
    static constexpr int shared_bytes =
        int(sizeof(map_pair)) + stages * int(sizeof(input)) + int(sizeof(feature_tiles)) + int(sizeof(ones_tile)) +
        (answers ? int(sizeof(state_tiles)) + int(sizeof(state_sums)) : 0) + (2 * stages + 4) * int(sizeof(semaphore));
    static_assert(shared_bytes <= max_shared_bytes);

    struct globals {
        heads_of<tile> q, k, v;
        heads_of<strip> o;
        maps_of q_map, k_map;
        const float *alpha, *beta;
        state_list before;   // of each segment but the first: the state that it starts from
        state_list after;    // what is asked for: what each segment adds (no queries), or the last state (if `finals`)
        bool finals, whole;  // whole: the last block is complete
        segmentation order;
    };
    struct task {
        int sequence, batch, head, segment;
        int first, begin, end;  // blocks: loaded from `first` to `end`, answered from `begin`
        int add;                // the blocks before the one before this one enter the state
    };

    struct shared {
        map_pair* maps;
        input* ring;
        state_tiles* state;
        state_sums* sums;
        feature_tiles* phi;
        ones_tile* ones;
        semaphore *full, *empty, *maps_full, *maps_empty, *state_full, *state_empty;
    };

    // A consumer's view of the ring: blocks in order, any of those not yet given back.
    struct reader {
        shared& s;
        position oldest;
        int kept = 0;  // the block at `oldest`

        kittens_device input& at(int block) {
            position p = oldest;
            p.advance(block - kept);
            wait(s.full[p.stage], p.parity);
            return s.ring[p.stage];
        }
        kittens_device void release_before(int block) {
            for (; kept < block; kept++, oldest.advance()) {
                wait(s.full[oldest.stage], oldest.parity);
                arrive(s.empty[oldest.stage]);
            }
        }
    };

    kittens_device static bool get_task(task& t, const globals& g, int i) {
        const segmentation& order = g.order;
        const int index = block_index() + i * block_count();
        if (index >= order.tasks) return false;
        t.sequence = order.segments.divide(index);
        t.segment = index - t.sequence * order.segments.value;
        t.batch = order.heads.divide(t.sequence);
        t.head = t.sequence - t.batch * order.heads.value;
        t.begin = t.segment * order.per_segment;
        t.first = t.begin > 0 ? t.begin - 1 : 0;
        t.end = t.begin + order.per_segment < order.blocks ? t.begin + order.per_segment : order.blocks;
        t.add = !answers || (g.finals && g.whole && t.end == order.blocks) ? t.end : t.end - 1;
        if (!answers && t.end > 1) t.end--;  // the last block is not looked at; but a task loads something
        return true;
    }

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.maps = memory.allocate<map_pair>("maps");
        s.ring = memory.allocate<input>("ring", stages);
        s.phi = memory.allocate<feature_tiles>("phi");
        s.ones = memory.allocate<ones_tile>("ones");
        if constexpr (answers) {
            s.state = memory.allocate<state_tiles>("state");
            s.sums = memory.allocate<state_sums>("sums");
            s.state_full = memory.allocate<semaphore>("state_full");
            s.state_empty = memory.allocate<semaphore>("state_empty");
        }
        s.full = memory.allocate<semaphore>("full", stages);
        s.empty = memory.allocate<semaphore>("empty", stages);
        s.maps_full = memory.allocate<semaphore>("maps_full");
        s.maps_empty = memory.allocate<semaphore>("maps_empty");
        const bool loads = warp_index() == loader * warpgroup_warps;
        if (loads) {
            prefetch_map<tile>(g.q);
            prefetch_map<tile>(g.k);
            prefetch_map<tile>(g.v);
            prefetch_map<strip>(g.o);
            init(s.full, stages, 1);
            init(s.empty, stages, consumers * warpgroup_warps);
            init(*s.maps_full, 1);
            init(*s.maps_empty, consumers * warpgroup_warps);
            if constexpr (answers) {
                init(*s.state_full, warpgroup_warps);
                init(*s.state_empty, warpgroup_warps);
            }
        }
        start_pipeline<warps, 1>(loads);
        if (warpgroup_index() == loader) {
            if constexpr (answers) decrease_registers<24>();
            if (loads) load_all(s, g);
        } else if (warpgroup_index() == keeper) {
            if constexpr (answers) increase_registers<consumer_registers>();
            keep_state(s, g);
        } else if constexpr (answers) {
            increase_registers<consumer_registers>();
            answer(s, g);
        }
    }

    kittens_device static void load_all(shared& s, const globals& g) {
        position at;
        task t;
        for (int i = 0; get_task(t, g, i); i++)
            for (int block = t.first; block < t.end; block++, at.advance()) {
                input& into = s.ring[at.stage];
                const coord place{t.batch, t.head, block, 0};
                wait(s.empty[at.stage], 1 - at.parity);
                expect_bytes(s.full[at.stage], sizeof(input));
                if constexpr (answers) load_async(into.q, g.q, place, s.full[at.stage]);
                load_async(into.k, g.k, place, s.full[at.stage]);
                load_async(into.v, g.v, place, s.full[at.stage]);
                if (block == t.first)
                    load_maps(s, g, t, i);  // under way with the first rows, ahead of the last task's end
            }
    }
    kittens_device static void load_maps(shared& s, const globals& g, const task& t, int i) {
        wait(*s.maps_empty, 1 - i % 2);
        expect_bytes(*s.maps_full, map_bytes);
        load_async(s.maps->k, g.k_map, coord{0, t.head, 0, 0}, *s.maps_full);
        if constexpr (answers) load_async(s.maps->q, g.q_map, coord{0, t.head, 0, 0}, *s.maps_full);
    }

    // --- keeper ---------------------------------------------------------------------------------------------------
    struct state {
        rt_fl<16, dim> plus, minus;  // a warp's rows: features
        rows_vec plus_sum, minus_sum;
        block_scores x;

        kittens_device void load(const state_list& from, int sequence, int which) {
            const int row = 16 * warp_in_group();
            kittens::load(plus, from.kv, element_coord{sequence, which, row, 0});
            kittens::load(minus, from.kv, element_coord{sequence, which, features + row, 0});
            kittens::load(plus_sum, from.k, element_coord{sequence, which, 0, row});
            kittens::load(minus_sum, from.k, element_coord{sequence, which, 0, features + row});
        }
        kittens_device void store(const state_list& to, int sequence, int which) const {
            const int row = 16 * warp_in_group();
            kittens::store(to.kv, plus, element_coord{sequence, which, row, 0});
            kittens::store(to.kv, minus, element_coord{sequence, which, features + row, 0});
            kittens::store(to.k, plus_sum, element_coord{sequence, which, 0, row});
            kittens::store(to.k, minus_sum, element_coord{sequence, which, 0, features + row});
        }
        kittens_device void clear() {
            zero(plus);
            zero(minus);
            zero(plus_sum);
            zero(minus_sum);
        }

        // x = k W, ahead of its block's turn
        kittens_device void project(shared& s, const input& of) { warpgroup::mm_AB(x, of.k, s.maps->k); }

        // state += phi(k) (x) v of a block whose x is there; then projects the next one.
        kittens_device void add(shared& s, reader& blocks, int block, int next) {
            const input& of = blocks.at(block);
            block_scores p;
            feature<1>(p, x);
            warpgroup::store(s.phi->plus, p);
            feature<-1>(p, x);
            warpgroup::store(s.phi->minus, p);
            fence_async();
            warpgroup::sync(keeper + 1);
            rt_fl<16, 16> plus_count, minus_count;  // a column of the sums, sixteen times
            warpgroup::mma_AtB(plus, s.phi->plus, of.v);
            warpgroup::mma_AtB(minus, s.phi->minus, of.v);
            warpgroup::mm_AtBt(plus_count, s.phi->plus, *s.ones);
            warpgroup::mm_AtBt(minus_count, s.phi->minus, *s.ones);
            project(s, blocks.at(next));
            warpgroup::mma_wait(plus, minus, plus_count, minus_count, x);
            rows_vec added;
            row_max(added, plus_count);
            kittens::add(plus_sum, plus_sum, added);
            row_max(added, minus_count);
            kittens::add(minus_sum, minus_sum, added);
            warpgroup::sync(keeper + 1);  // phi may be written again
        }
    };

    kittens_device static void keep_state(shared& s, const globals& g) {
        if (warp_in_group() == 0) {
            rt_bf<16, rows> all;
            one(all);
            store(*s.ones, all);
            fence_async();
        }
        warpgroup::sync(keeper + 1);
        state sum;
        reader blocks{s};
        task t;
        int copies = 0;
        for (int i = 0; get_task(t, g, i); i++) {
            blocks.kept = t.first;
            if (answers && t.begin > 0) sum.load(g.before, t.sequence, t.segment - 1);
            else sum.clear();
            wait(*s.maps_full, i % 2);
            sum.project(s, blocks.at(t.first));
            warpgroup::mma_wait(sum.x);
            for (int block = t.begin; block < t.add; block++) {
                if constexpr (answers) copy_state(s, sum, copies++);
                if (block > 0) sum.add(s, blocks, block - 1, block < t.end ? block : block - 1);
                blocks.release_before(block);
            }
            if constexpr (answers)
                if (t.add < t.end) copy_state(s, sum, copies++);
            arrive(*s.maps_empty);
            blocks.release_before(t.end);
            if (!answers || (g.finals && t.end == g.order.blocks))
                sum.store(g.after, t.sequence, answers ? 0 : t.segment);
        }
    }

    // The n-th copy, once the one before has been read.
    kittens_device static void copy_state(shared& s, const state& sum, int n) {
        wait(*s.state_empty, 1 - n % 2);
        warpgroup::store(s.state->plus, sum.plus);
        warpgroup::store(s.state->minus, sum.minus);
        warpgroup::store(s.sums->plus, sum.plus_sum);
        warpgroup::store(s.sums->minus, sum.minus_sum);
        fence_async();
        arrive(*s.state_full);
    }

    // --- queries --------------------------------------------------------------------------------------------------
    kittens_device static void answer(shared& s, const globals& g) {
        reader blocks{s};
        task t;
        int copies = 0;
        for (int i = 0; get_task(t, g, i); i++) {
            blocks.kept = t.first;
            wait(*s.maps_full, i % 2);
            for (int block = t.begin; block < t.end; block++) answer_block(s, g, t, block, copies++, blocks);
            arrive(*s.maps_empty);
            store_read_wait();
            blocks.release_before(t.end);
        }
    }

    kittens_device static void answer_block(shared& s, const globals& g, const task& t, int block, int n,
                                            reader& blocks) {
        input& before = blocks.at(block > 0 ? block - 1 : 0);  // hidden from the first block
        input& here = blocks.at(block);
        // With a negative beta everything changes its sign, so that the window's weights can be powers of two.
        const float beta = g.beta[t.head], sign = beta < 0 ? -1.f : 1.f, alpha = sign * g.alpha[t.head];
        block_scores x, p, far, near;
        rt_bf<16, rows> plus, minus, far_weights, near_weights;
        rows_vec top, total, near_total;
        warpgroup::mm_AB(x, here.q, s.maps->q);
        warpgroup::mm_ABt(far, here.q, before.k);
        warpgroup::mm_ABt(near, here.q, here.k);
        store_read_wait();  // this warp's output has left the q tile of its block before
        warpgroup::mma_wait<2>(x);
        feature<1>(p, x, alpha);
        copy(plus, p);
        feature<-1>(p, x, alpha);
        copy(minus, p);
        warpgroup::mma_wait(far, near);

        if (block == 0) fill(far, -INFINITY);
        tril(near, near, 16 * warp_in_group(), -INFINITY);
        row_max(top, far);
        row_max(top, near, top);
        const float beta_log = math::log2(math::abs(beta));
        map(top, top, [=](float m) { return m * window_scale - beta_log; });
        const auto weigh = [](float a, float m) { return math::exp2(a * window_scale - m); };
        map_rows(far, far, top, weigh);
        map_rows(near, near, top, weigh);
        zero(total);
        zero(near_total);
        row_sum_partial(total, far);
        row_sum_partial(near_total, near);
        add(total, total, near_total);
        copy(far_weights, far);
        copy(near_weights, near);

        rt_fl<16, dim> o;
        wait(*s.state_full, n % 2);
        warpgroup::mm_AB(o, far_weights, before.v);
        warpgroup::mma_AB(o, near_weights, here.v);
        warpgroup::mma_AB(o, plus, s.state->plus);
        warpgroup::mma_AB(o, minus, s.state->minus);
        add_linear(total, plus, s.sums->plus);
        add_linear(total, minus, s.sums->minus);
        row_sum_finish(total);
        map(total, total, [=](float sum) { return 1.f / (sum + sign * normaliser_offset); });
        settle(total);
        warpgroup::mma_wait(o);
        arrive(*s.state_empty);
        blocks.release_before(block);
        mul_row(o, o, total);
        warpgroup::sync(queries + 1);  // q has been read by all of the warps' multiplies
        auto& output = subtile<16, dim>(here.q, warp_in_group(), 0);
        store(output, o);
        fence_async();
        store_async(g.o, output, element_coord{t.batch, t.head, rows * block + 16 * warp_in_group(), 0});
    }

    // total += phi . sum over the keys of phi
    kittens_device static void add_linear(rows_vec& total, const rt_bf<16, features>& phi,
                                          const sv_fl<features>& sums) {
        block_scores terms;
        block_scores::row_vec k;
        load(k, sums);
        copy(terms, phi);
        mul_col(terms, terms, k);
        row_sum_partial(total, terms);
    }
};

// In place: the n-th of each sequence's states becomes the sum of the first n + 1.
struct prefix_kernel {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 4, batch = 8;
    static constexpr int lines = 2 * features + 1;  // of 128 numbers: kv, k
    struct globals {
        state_list states;
        int count;
    };

    kittens_device static void run(const globals& g) {
        const int line = block_index() * warps + warp_index(), sequence = line / lines, row = line % lines;
        if (sequence >= g.states.kv.batch()) return;
        if (row < lines - 1) accumulate(g.states.kv, sequence, row, g.count);
        else accumulate(g.states.k, sequence, 0, g.count);
    }
    template <global_tensor Gl>
    kittens_device static void accumulate(const Gl& states, int sequence, int row, int count) {
        rv_fl<dim> running;
        zero(running);
        for (int first = 0; first < count; first += batch) {
            rv_fl<dim> next[batch];  // loaded together: the loads overlap
            for (int i = 0; i < batch; i++)
                if (first + i < count) load(next[i], states, coord{sequence, first + i, row, 0});
            for (int i = 0; i < batch; i++)
                if (first + i < count) {
                    add(running, running, next[i]);
                    store(states, running, coord{sequence, first + i, row, 0});
                }
        }
    }
};

}  // namespace tk::hedgehog
