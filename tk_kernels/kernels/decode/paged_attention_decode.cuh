// Paged decode with grouped heads: few new tokens attend long sequences whose keys and values lie in pages. Blocks read
// what to do from a plan (layout.h) and hand results to one another through counters, in one launch
// (after ThunderMLA's and ThunderGQA's design: Spector et al., 2025).
//
// A tile is up to 64 or 128 rows, the new tokens of the query heads that share a key head. `attend` walks over a piece
// of its keys, 64 at a time, by online softmax, and writes the result; or, where the keys are divided, leaves it with
// its weights in a slot and signals. `reduce` awaits all slots of a tile and merges them, in their order:
// the result does not depend on who was first. Or the plan leaves that to the block that is the last to signal.
//
// One warp loads: it runs ahead of those that multiply, over the ends of instructions, so that the memory is always at
// work. All pages' keys are read once a tile: a launch is bound by memory. A warpgroup multiplies 64 rows. Two of them,
// for more rows than that, share the tiles of keys and values.
//
// shared memory  a ring of `stages` tiles of 64 keys or values: 96 KB
// registers      S 32, P 16, O dim / 2, Q dim / 4 a thread; a block of two groups moves the loader's to them
// any lengths: keys behind the end are masked in S, values there are cleared in shared memory, since a page's tail may
// hold anything; table entries behind the end are not used
#pragma once

#include "kittens.cuh"

#include "decode.h"
#include "instructions.cuh"

namespace tk::paged_attention_decode {

using namespace kittens;
namespace plan = tk::decode_plan;
using plan::instruction;

using rows_vec = rt_fl<16, 16>::col_vec;  // one value for each of a warp's 16 rows

// Groups: warpgroups that multiply.
template <int Dim, int PageKeys, int Groups, typename Recorder = unrecorded> struct paged_kernel {
    static constexpr int consumers = Groups * warpgroup_warps;
    // One group has registers enough beside a single warp; two take those of a whole warpgroup.
    static constexpr int warps = Groups == 1 ? consumers + 1 : limits::pipeline_warps(Groups, 1);
    static constexpr int cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int registers = 232;  // that they have then
    static constexpr int keys = plan::gqa_key_step;
    static constexpr int barrier = 1;  // of the consumers

    using tile = st_bf<keys, Dim>;
    using piece = st_bf<PageKeys, Dim>;  // of a tile, that lies in one page
    using places = plan::places<keys, PageKeys>;
    using shares_of_warps = plan::share<Dim>[consumers];
    static constexpr int stages = limits::stages(96 * 1024 / int(sizeof(tile)), sizeof(tile), sizeof(shares_of_warps));
    using inputs = ring<tile, stages>;
    static constexpr int shared_bytes =
        stages * int(sizeof(tile)) + int(sizeof(shares_of_warps)) + (inputs::semaphores + 2) * int(sizeof(semaphore));

    using matrix = gl<bf16, 1, 1, dynamic, Dim>;
    // Of a sequence, how many rows behind another one the next token's and the next head's lie.
    struct row_order {
        int token, head;
    };
    using cache = gl<bf16, dynamic, dynamic, dynamic, Dim, piece>;  // (page, head, row, col)
    using team = kittens::team<consumers, barrier>;
    struct globals : Recorder::where {
        matrix q, out;
        row_order q_order, out_order;
        cache k, v;
        gl<float, 1, 1, 1, dynamic> lse;                               // of (sequence, head, token), or of nothing
        exchanged<gl<float, 1, dynamic, dynamic, Dim>> partial;        // (slot, row, col)
        exchanged<gl<float, 1, 2, dynamic, dynamic>> partial_weights;  // (top or sum, slot, row)
        plan::table queues, pages;  // (block and instruction, field); (sequence, nth)
        plan::table lengths;        // of sequences, or of nothing
        counters ready;
        float scale;  // of the scores, with log2(e)
        int capacity, new_tokens, heads;
        divisor group, page;  // heads that share a key head; keys of a page
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        inputs in;
        in.allocate_stages(memory, "ring");
        auto& shares = *memory.allocate<shares_of_warps>("shares");
        in.allocate_semaphores(memory, "full", "empty");
        auto& counted = *memory.allocate<semaphore>("counted");
        auto& signals = *memory.allocate<int>("signals");  // of the tile, when this block came
        const bool loader = warp_index() == consumers;
        plan::queue instructions(g.queues, g.capacity);
        if (loader) {
            prefetch_maps(g.k, g.v);
            in.init(1, consumers);
            init(counted, 1);
        }
        start_pipeline<warps, 1>(loader);
        if (Groups == 1 ? loader : warp_index() >= consumers) {
            if constexpr (Groups > 1) {
                decrease_registers<limits::producer_registers(Groups, registers)>();
                if (!loader) return;
            }
            typename inputs::position at;
            Recorder record(g, 0, [] { return true; });
            instructions.walk(record, [&](const instruction& t) {
                if (t.opcode == plan::opcode::attend) fetch(in, at, t, g);
            });
            retire_behind(counted, instructions, g.ready);
        } else {
            if constexpr (Groups > 1) increase_registers<registers>();
            ring_reader<inputs> tiles{in};
            const team all{counted, consumer() == 0};
            Recorder record(g, 1, [] { return warp_index() == 0; });
            plan::multiply_by_plan(
                instructions, record, all, g.ready,
                [&](instruction& t) { return attend(tiles, all, signals, instructions, t, g, record); },
                [&](const instruction& t) { reduce(shares, t, g); });
        }
    }

    // Which of the warps that multiply this is: it has the tile's 16 rows from 16 times that number on.
    kittens_device static int consumer() { return warp_index() % consumers; }

    // Keys and values in turn, which lie in the same places of two tensors.
    kittens_device static void fetch(inputs& in, typename inputs::position& at, const instruction& t,
                                     const globals& g) {
        integer_row pages(g.pages, t.sequence);
#pragma unroll 1
        for (int key = t.first_key; key < t.end_key; key += keys) {
            const places from(pages, key, t, g.page);
            fetch_tile(in, at, g.k, from, t);
            fetch_tile(in, at, g.v, from, t);
        }
    }
    kittens_device static void fetch_tile(inputs& in, typename inputs::position& at, const cache& from,
                                          const places& where, const instruction& t) {
        const auto into = in.fill(at);
#pragma unroll
        for (int i = 0; i < places::count; i++)
            load_async(subtile<PageKeys, Dim>(into.stage, i, 0), from,
                       element_coord{where.page[i], t.kv_head, where.row[i], 0}, into.full);
        at.advance();
    }

    // Row `row` of a tile: where its token's and head's is in a tensor of that order; -1 where there is none.
    kittens_device static int place(row_order of, int row, const instruction& t, const globals& g) {
        int member;
        const int token = g.group.divide(t.row_tile * g.partial.rows() + row, member);
        if (token >= g.new_tokens) return -1;
        const int head = t.kv_head * g.group.value + member;
        return t.sequence * g.new_tokens * g.heads + token * of.token + head * of.head;
    }
    // Whether a warp's part of a slot is to be stored. Of a tile for two groups rows that are not there are left out:
    // of 68 rows they would be half as much again.
    kittens_device static bool is_stored(int first_row, const instruction& t, const globals& g) {
        if constexpr (Groups == 1) return first_row < g.partial.rows();
        else return place(g.out_order, first_row, t, g) >= 0;
    }
    kittens_device static int place_in_lse(int row, const instruction& t, const globals& g) {
        return g.lse.cols() == 0 ? -1 : place({1, g.new_tokens}, row, t, g);
    }

    // Returns whether the block is to reduce the tile.
    kittens_device static bool attend(ring_reader<inputs>& tiles, const team& all, int& signals,
                                      plan::queue& instructions, instruction& t, const globals& g, Recorder& record) {
        const int first_row = 16 * consumer();
        rt_bf<16, Dim> q;
        rt_fl<16, keys> scores;
        rt_bf<16, keys> weights;
        rt_fl<16, Dim> o;
        online_softmax<> state;
        rows_vec shrink, factor, lse;
        plan::told_length length(g.lengths, t);
        load_rows(q, g.q, [&](int row) { return place(g.q_order, first_row + row, t, g); });
        zero(o);
        for (int key = t.first_key; key < t.end_key; key += keys) {
            warpgroup::mm_ABt(scores, q, tiles.take());
            record.waited();
            warpgroup::mma_wait(scores);
            tiles.release();
            hide(scores, first_row, key, t, g);
            if (state.step(scores, shrink, g.scale)) mul_row(o, o, shrink);
            copy(weights, scores);
            tile& v = tiles.take();
            if (key + keys > t.length) clear_tail(v, t.length - key);
            warpgroup::mma_AB(o, weights, v);
            warpgroup::mma_wait(o);
            tiles.release();
        }
        length.require(state.sum, t);
        state.finish(factor, lse);
        mul_row(o, o, factor);
        bool reduces = false;
        if (t.slot < 0) {
            store_rows(g.out, o, [&](int row) { return place(g.out_order, first_row + row, t, g); });
            store_elements(g.lse, lse, [&](int row) { return place_in_lse(first_row + row, t, g); });
        } else {
            if (is_stored(first_row, t, g)) {
                store(g.partial, o, element_coord{0, t.slot, first_row, 0});
                store(g.partial_weights, state.top, element_coord{0, 0, t.slot, first_row});
                store(g.partial_weights, state.sum, element_coord{0, 1, t.slot, first_row});
            }
            reduces = plan::hand_over_partial(all, instructions, t, g.ready, signals);
        }
        all.ends(t.last);
        return reduces;
    }

    // A new token sees the keys up to its own, token 0 the fewest.
    kittens_device static void hide(rt_fl<16, keys>& scores, int first_row, int key, const instruction& t,
                                    const globals& g) {
        const int oldest = t.length - (g.new_tokens - 1) - key;  // so many of these keys token 0 sees
        if (oldest >= keys) return;
        const int row0 = t.row_tile * g.partial.rows() + first_row, length = t.length - key;
        mask(
            scores, scores,
            [=, &g](int row, int col) {
                const int seen = oldest + g.group.divide(row0 + row);
                return col < (seen < length ? seen : length);
            },
            -INFINITY);
    }

    // Zeros the rows of a tile of values from `tail` on: a weight of zero does not help against what is no number. One
    // warpgroup does it for all.
    kittens_device static void clear_tail(tile& v, int tail) {
        if (Groups == 1 || warpgroup_index() == 0) {
            rt_bf<16, Dim> own;
            auto& strip = subtile<16, Dim>(v, warp_in_group(), 0);
            load(own, strip);
            lower_fill(own, own, tail - 16 * warp_in_group());
            store(strip, own);
            fence_async();
        }
        sync_named(barrier, consumers);
    }

    // Rows by a warp each, or, where there are few, each by all.
    kittens_device static void reduce(shares_of_warps& shares, const instruction& t, const globals& g) {
        const int rows = t.end_row - t.first_row, warp = consumer();
        const auto put = [&](plan::merged_row<Dim>& whole, int row) {
            plan::put_row(whole, g.out, place(g.out_order, row, t, g), 0, g.lse, place_in_lse(row, t, g));
        };
        if (rows >= (Groups == 1 ? consumers : consumers + 1))
            return plan::reduce_by_warp<Dim, consumers, 4, 2>(t, g, warp, 0, put);
        if (Groups > 1 && rows >= consumers / 2) return plan::reduce_by_warp<Dim, consumers, 1, 8>(t, g, warp, 0, put);
        plan::reduce_together<Dim, consumers, 8>(t, g, warp, 0, shares, [] { sync_named(barrier, consumers); }, put);
    }
};

}  // namespace tk::paged_attention_decode
