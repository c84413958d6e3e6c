// Decode with multi-head latent attention, weights absorbed: all heads read one row of the cache, 512 latent and 64
// rotary numbers, as their key, and its latent part as their value. Blocks read what to do from a plan
// (layout.h) and hand results to one another through counters, in one launch (after ThunderMLA's design:
// Spector et al., 2025).
//
// A tile is 64 rows (new token, head). `attend` walks over a piece of its keys by online softmax and writes the result;
// or, where the keys are divided, leaves it with its weights in a slot and signals. `reduce` awaits all
// slots of a tile and merges them, in their order: the result does not depend on who was first. Or the plan leaves that
// to the block that is the last to signal.
//
// A step is 64 keys. One of two warpgroups has the scores: a multiply of 64 x 64 asks shared memory for two thirds of
// what two of 64 x 32 ask for. Its weights go through shared memory, and each warpgroup has half the result's columns.
// One more warp loads: it runs ahead over the ends of instructions, so that the memory is always at work. With 16 heads
// a launch is bound by memory: a step takes 2.3 us of a multiprocessor's share at 4.2 TB/s.
//
// shared memory  queries 72 KB, a ring of 2 tiles of 64 keys 144 KB, weights 8 KB
// registers      O 128, S 32 a thread
// any lengths: keys behind the end are masked in S, values there are cleared in shared memory, since a page's tail may
// hold anything; table entries behind the end are not used
#pragma once

#include "kittens.cuh"

#include "decode.h"
#include "instructions.cuh"

namespace tk::mla_decode {

using namespace kittens;
namespace plan = tk::decode_plan;
using plan::instruction;

using rows_vec = rt_fl<16, 16>::col_vec;  // one value for each of a warp's 16 rows

constexpr int rows = plan::mla_rows_per_tile, keys = 2 * plan::mla_key_step;
constexpr int groups = 2, columns = latent / groups;  // warpgroups that multiply, and what each has of a result

template <int PageKeys, typename Recorder = unrecorded> struct kernel {
    static constexpr int consumers = groups * warpgroup_warps;
    static constexpr int warps = consumers + warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int registers = 216;  // of a thread that multiplies
    // Barriers: 1 and 2 are each warpgroup's own; of all that multiply; and where the weights may be written again.
    static constexpr int both = groups + 1, spent = groups + 2;

    using query = st_bf<rows, width>;
    using tile = st_bf<keys, width>;
    using piece = st_bf<PageKeys, width>;  // of a tile, that lies in one page
    using weights = st_bf<rows, keys>;
    // What the warpgroups tell one another.
    struct exchange {
        union {
            weights weight;
            plan::share<columns> shares[groups][warpgroup_warps];
        };
        sv_fl<rows> shrink, factor;
        int signals;  // of the tile, when this block came
    };
    static constexpr int stages = limits::stages(2, sizeof(tile), sizeof(query) + sizeof(exchange) + 256);
    using queries = ring<query, 1>;
    using inputs = ring<tile, stages>;
    static constexpr int shared_bytes = int(sizeof(query)) + stages * int(sizeof(tile)) + int(sizeof(exchange)) +
                                        (queries::semaphores + inputs::semaphores + 1) * int(sizeof(semaphore));

    using matrix = gl<bf16, 1, 1, dynamic, dynamic>;
    using team = kittens::team<consumers, both>;
    struct globals : Recorder::where {
        gl<bf16, dynamic, 1, dynamic, width, query> q;                 // (sequence, token and head)
        matrix out;                                                    // (sequence and token and head)
        gl<bf16, dynamic, 1, dynamic, width, piece> cache;             // (page, row)
        gl<float, 1, 1, 1, dynamic> lse;                               // of (sequence, head, token), or of nothing
        exchanged<gl<float, 1, dynamic, dynamic, latent>> partial;     // (slot, row, col)
        exchanged<gl<float, 1, 2, dynamic, dynamic>> partial_weights;  // (top or sum, slot, row)
        plan::table queues, pages;  // (block and instruction, field); (sequence, nth)
        plan::table lengths;        // of sequences, or of nothing
        counters ready;
        float scale;  // of the scores, with log2(e)
        int capacity, new_tokens;
        divisor heads, page;  // keys of a page
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        queries asked;
        inputs in;
        asked.allocate_stages(memory, "queries");
        in.allocate_stages(memory, "ring");
        auto& between = *memory.allocate<exchange>("between");
        asked.allocate_semaphores(memory, "queries_full", "queries_empty");
        in.allocate_semaphores(memory, "full", "empty");
        auto& counted = *memory.allocate<semaphore>("counted");
        const bool loader = warp_index() == consumers;
        if (loader) {
            prefetch_maps(g.q, g.cache);
            asked.init(1, warpgroup_warps);
            in.init(1, consumers);
            init(counted, 1);
        }
        plan::queue instructions(g.queues, g.capacity);
        start_pipeline<warps, 1>(loader);
        if (warp_index() >= consumers) {
            decrease_registers<limits::producer_registers(groups, registers)>();
            if (!loader) return;
            typename queries::position query_at;
            typename inputs::position at;
            Recorder record(g, 0, [] { return true; });
            instructions.walk(record, [&](const instruction& t) {
                if (t.opcode == plan::opcode::attend) fetch(asked, query_at, in, at, instructions.n == 1, t, g);
            });
            retire_behind(counted, instructions, g.ready);
        } else {
            increase_registers<registers>();
            ring_reader<queries> query{asked};
            ring_reader<inputs> tiles{in};
            const team all{counted, warp_index() == 0};
            Recorder record(g, 1, [] { return warp_index() == 0; });
            plan::multiply_by_plan(
                instructions, record, all, g.ready,
                [&](instruction& t) { return attend(query, tiles, between, all, instructions, t, g, record); },
                [&](const instruction& t) { reduce(between, t, g); });
        }
    }

    // The queries come behind the first keys: those before may still be in use. At first none are, and the table's
    // entries take as long to come.
    kittens_device static void fetch(queries& asked, typename queries::position& query_at, inputs& in,
                                     typename inputs::position& at, bool at_first, const instruction& t,
                                     const globals& g) {
        integer_row pages(g.pages, t.sequence);
        if (t.first_key == t.end_key) return;
        if (at_first) fetch_queries(asked, query_at, t, g);
        for (int key = t.first_key; key < t.end_key; key += keys) {
            fetch_tile(in, at, pages, key, t, g);
            if (key == t.first_key && !at_first) fetch_queries(asked, query_at, t, g);
        }
    }
    kittens_device static void fetch_queries(queries& asked, typename queries::position& at, const instruction& t,
                                             const globals& g) {
        const auto into = asked.fill(at);
        load_async(into.stage, g.q, element_coord{t.sequence, 0, t.row_tile * rows, 0}, into.full);
        at.advance();
    }
    template <typename Pages>
    kittens_device static void fetch_tile(inputs& in, typename inputs::position& at, Pages& pages, int key,
                                          const instruction& t, const globals& g) {
        const auto into = in.fill(at);
        const plan::places<keys, PageKeys> from(pages, key, t, g.page);
#pragma unroll
        for (int i = 0; i < from.count; i++)
            load_async(subtile<PageKeys, width>(into.stage, i, 0), g.cache,
                       element_coord{from.page[i], 0, from.row[i], 0}, into.full);
        at.advance();
    }

    // Row `row` of a tile: its place in out and in lse; -1 where there is none.
    kittens_device static int place_in_out(int row, const instruction& t, const globals& g) {
        row += t.row_tile * rows;
        return row < g.q.rows() ? t.sequence * g.q.rows() + row : -1;
    }
    kittens_device static int place_in_lse(int row, const instruction& t, const globals& g) {
        row += t.row_tile * rows;
        int head;
        const int token = g.heads.divide(row, head);
        if (row >= g.q.rows() || g.lse.cols() == 0) return -1;
        return (t.sequence * g.heads.value + head) * g.new_tokens + token;
    }

    // Returns whether the block is to reduce the tile.
    kittens_device static bool attend(ring_reader<queries>& asked, ring_reader<inputs>& tiles, exchange& between,
                                      const team& all, plan::queue& instructions, instruction& t, const globals& g,
                                      Recorder& record) {
        const int own = warpgroup_index(), first_row = 16 * warp_in_group();
        rt_fl<16, keys> scores;
        rt_fl<16, columns> o;
        online_softmax<> state;
        rows_vec shrink, factor, lse;
        plan::told_length length(g.lengths, t);
        zero(o);
        zero(factor);
        one(shrink);
        for (int key = t.first_key; key < t.end_key; key += keys) {
            tile& kv = tiles.take(kittens_here, own == 0);  // a barrier tells the other warpgroup
            record.waited();
            if (own == 0) {
                query& q = asked.read.stages[0];
                if (key == t.first_key) asked.take();
                warpgroup::mm_ABt(scores, q, kv);
                warpgroup::mma_wait(scores);
                if (key + keys >= t.end_key) asked.release();
                hide(scores, first_row, key, t, g);
                if (!state.step(scores, shrink, g.scale)) one(shrink);
                if (key > t.first_key) sync_named(spent, consumers);
                warpgroup::store(between.weight, scores);
                warpgroup::store(between.shrink, shrink);
                if (key + keys > t.length) {
                    warpgroup::sync(1);  // all have the scores
                    clear_tail(kv, t.length - key);
                }
                fence_async();
            }
            sync_named(both, consumers);
            if (own != 0) warpgroup::load(shrink, between.shrink);
            if (any(shrink, [](float x) { return x != 1.f; })) mul_row(o, o, shrink);
            warpgroup::mma_AB(o, between.weight, subtile<keys, columns>(kv, 0, own));
            warpgroup::mma_wait(o);
            tiles.release();
            if (own != 0 && key + keys < t.end_key) arrive_named(spent, consumers);
        }
        if (t.first_key < t.end_key) {
            if (own == 0) {
                length.require(state.sum, t);
                state.finish(factor, lse);
                warpgroup::store(between.factor, factor);
            }
            sync_named(both, consumers);
            if (own != 0) warpgroup::load(factor, between.factor);
        } else {
            fill(lse, -INFINITY);
            length.require(lse, t);
            length.require(factor, t);
        }
        mul_row(o, o, factor);
        bool reduces = false;
        if (t.slot < 0) {
            store_rows(columns_from(g.out, own * columns, columns), o,
                       [&](int row) { return place_in_out(first_row + row, t, g); });
            if (own == 0) store_elements(g.lse, lse, [&](int row) { return place_in_lse(first_row + row, t, g); });
        } else {
            if (place_in_out(first_row, t, g) >= 0) {  // else the warp has no row
                store_pairs(g.partial, o, element_coord{0, t.slot, first_row, own * columns});
                if (own == 0) {
                    store(g.partial_weights, state.top, element_coord{0, 0, t.slot, first_row});
                    store(g.partial_weights, state.sum, element_coord{0, 1, t.slot, first_row});
                }
            }
            reduces = plan::hand_over_partial(all, instructions, t, g.ready, between.signals);
        }
        all.ends(t.last);
        return reduces;
    }

    // A new token sees the keys up to its own, token 0 the fewest; what lies behind the piece's end is not its.
    kittens_device static void hide(rt_fl<16, keys>& scores, int first_row, int key, const instruction& t,
                                    const globals& g) {
        const int oldest = t.length - (g.new_tokens - 1) - key;  // so many of these keys token 0 sees
        const int row0 = t.row_tile * rows + first_row, length = t.end_key - key;
        if (oldest >= keys && length >= keys) return;
        mask(
            scores, scores,
            [=, &g](int row, int col) {
                const int seen = oldest + g.heads.divide(row0 + row);
                return col < (seen < length ? seen : length);
            },
            -INFINITY);
    }

    // Zeros the values of a tile from row `tail` on: a weight of zero does not help against what is no number. Its
    // scores are known by then, to all warps of the warpgroup.
    kittens_device static void clear_tail(tile& v, int tail) {
        constexpr int strips = latent / 64 / warpgroup_warps;
#pragma unroll 1
        for (int i = 0; i < strips * (keys / 16); i++) {
            rt_bf<16, 64> part;
            auto& strip = subtile<16, 64>(v, i / strips, warp_in_group() * strips + i % strips);
            load(part, strip);
            lower_fill(part, part, tail - 16 * (i / strips));
            store(strip, part);
        }
    }

    // Half the columns a warpgroup: rows by a warp each, or, where there are fewer rows than warps, each by all four.
    kittens_device static void reduce(exchange& between, const instruction& t, const globals& g) {
        const int own = warpgroup_index(), warp = warp_in_group(), column = own * columns;
        const auto put = [&](plan::merged_row<columns>& whole, int row) {
            plan::put_row(whole, g.out, place_in_out(row, t, g), column, g.lse, place_in_lse(row, t, g));
        };
        if (t.end_row - t.first_row >= warpgroup_warps)
            return plan::reduce_by_warp<columns, warpgroup_warps, 2, 4>(t, g, warp, column, put);
        plan::reduce_together<columns, warpgroup_warps, 16>(
            t, g, warp, column, between.shares[own], [=] { warpgroup::sync(1 + own); }, put);
    }
};

}  // namespace tk::mla_decode
