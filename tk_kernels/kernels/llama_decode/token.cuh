// Tokens of a Llama by one launch of the interpreter: for up to Batch sequences, whose keys lie in a cache. A round of
// the program makes one token of each:
//
//   q k v     x is normed; a block multiplies by its run of pages, 16 rows of weights and 512 columns each: eight warps
//             have 64 columns each, whose sums the storer adds and stores
//   attend    a block has a key head of a sequence and a part of its keys. It norms (Qwen3) and turns queries and key,
//             attends keys 16 to a warp, merges the warps, and stores a partial. Whoever has the last part has the new
//             key and value, which it appends behind its pages
//   out       parts are merged, by every block for itself; the sums, and x of before, are x
//   gate, up  x is normed; the storer makes silu(gate) up of a row block of both
//   down      the sums, and x of before, are x
//   head      x is normed; logits, the largest of which each block tells to all: so the next round begins
//
// x is fp32. Who has a row block's sums adds the 16 columns of x of before, which the first of its warps has asked for
// while the others multiplied; every block reads all of it to norm it. Nothing is added by atomics: the same call gives
// the same bits. What blocks hand over goes through `exchanged` tensors. No place is written twice in a round, and a
// round begins when all blocks have multiplied by their last page of the one before: so there are no counters for the
// way back. A block may then be about to read the largest logits, which have two places in turn.
//
// Shared memory: a ring of 12 pages of 16 KiB (11 where heads have 128 columns or x more than 2048; 5 for a batch), an
// input in bf16, in units of 64 columns and a sequence, two parts of sums. A page has keys of a head and as many
// values, too.
#pragma once

#include <bit>

#include "kittens.cuh"

#include "../decode/instructions.cuh"
#include "layout.h"

namespace tk::llama_decode {

using namespace kittens;
using decode_plan::merged_row;
using decode_plan::weighed;

struct instruction {
    int opcode, layer, at_least, signals, first, count, slot, round = 0;
    bool last;

    // Of an attend, in the places of others' pages.
    kittens_device int sequence() const { return first; }
    kittens_device int kv_head() const { return count; }
    kittens_device int split() const { return slot; }

    template <typename Row> kittens_device void read(Row& row) {
        opcode = row.brought(field::opcode), layer = row.brought(field::layer);
        at_least = row.brought(field::at_least), signals = row.brought(field::signals);
        first = row.brought(field::first), count = row.brought(field::count), slot = row.brought(field::slot);
    }
};

// Own: so many times 64 columns of x a warp has at most.
template <int Dim, int Batch, int Own, typename Recorder = unrecorded> struct token {
    static constexpr int consumers = 8, parts = Batch == 8 ? 1 : 2, most_width = 64 * Own * consumers;
    static constexpr int units_of_head = Dim / 64;  // of 64 columns
    static constexpr int pages = Batch > 1 ? 5 : Dim == 64 && Own == 4 ? 12 : 11;
    static constexpr int input_bytes = 1024 * (Batch > 1 ? 128 : pages == 12 ? 24 : 40);
    using page = st_bf<page_rows, page_columns>;
    static constexpr int keys = page::bytes / (4 * Dim), key_tiles = keys / 16, pages_at_once = consumers / key_tiles;
    using key_tile = st_bf<keys, Dim>;
    struct key_page {
        key_tile k, v;
    };
    static_assert(sizeof(key_page) == sizeof(page));
    using half_row = sv_bf<Dim / 2>;
    struct part {
        sv_fl<16> sums[2][consumers][Batch];  // [1]: of up
    };
    struct workspace {
        union {
            sv_bf<64> input[input_bytes / 128];  // (columns, sequence)
            struct {
                half_row q[2][most_group], fresh[2][2];  // halves of queries, of the new key, of the new value
                sv_fl<64> o[consumers][units_of_head][most_group];
                sv_fl<16> lse[consumers];
            } attended;
        };
        sv_fl<8 * consumers> squares;            // (sequence, warp)
        sv_fl<16> best[Batch], best_row[Batch];  // of a block's logits: of each of 16 rows the largest, its row block
        int words[Batch];                        // the tokens
    };
    static_assert(sizeof(workspace) <= input_bytes + 2560);
    static constexpr int kept_bytes = int(sizeof(workspace));
    using instruction = llama_decode::instruction;
    using matrix = loaded_once<gl<bf16, 1, dynamic, dynamic, dynamic, page>>;
    // (layer and sequence, head, position, column)
    using cache = exchanged<gl<bf16, dynamic, dynamic, dynamic, Dim, key_tile>>;
    using handed_over = exchanged<gl<float, 1, dynamic, dynamic, dynamic>>;  // layout.h
    struct globals : Recorder::where {
        matrix qkv, out, gate, up, down, head;
        cache k, v;
        gl<const bf16, 1, 1, dynamic, dynamic> embedding, norms, bias, head_norms;
        gl<const float, 1, 1, dynamic, Dim / 2> cosine, sine;
        gl<const int, 1, 1, 1, dynamic> positions, tokens;
        handed_over projected, added;      // (layer and slot, sequence, element); added: of out and down in turn
        handed_over partial, partial_lse;  // (row, column); the row
        exchanged<gl<bf16, 1, dynamic, dynamic, dynamic>> act;  // (layer, sequence, column)
        handed_over act_words;                                  // the same, two at a time
        // In one row, (two, sequence, block): each block's largest logit, and its token + 1; zeros where no block is.
        handed_over best, best_word;
        gl<float, 1, 1, 1, dynamic> chosen;  // in one row, (sequence, round): int
        gl<float, 1, 1, dynamic, dynamic> logits;
        gl<const int, 1, 1, dynamic, dynamic> queues;
        counters ready;  // the last is for the largest logits
        divisor width_steps, query_steps, inner_steps, splits;
        int capacity, layers, width, inner, heads, kv_heads, group, projected_slots, added_slots, sequences;
        int flight, flight_of_head, rounds;
        bool biased, normed_heads, chooses;
        float epsilon, scale;

        kittens_device int batch() const { return Batch == 1 ? 1 : sequences; }
        kittens_device int slot_of(int layer, int sequence, int head, int split) const {
            return ((layer * batch() + sequence) * heads + head) * splits.value + split;
        }
        kittens_device int length(int sequence, int round) const {
            return load_integer(positions, element_coord{0, 0, 0, sequence}) + round + 1;
        }
        kittens_device int first_best(int sequence, int round) const {
            return (round % 2 * batch() + sequence) * best_columns(block_count());
        }
        kittens_device counter said() const { return ready[ready.count - 1]; }
    };
    struct keeping {
        workspace& shared;
        rt_fl<16, 16> sum[2], before;  // x of before, of the row block: the first warp's
        rt_fl<16, 64> o[units_of_head];
        online_softmax<> state;

        kittens_device keeping(shared_allocator& memory, const globals&)
            : shared(*memory.allocate<workspace>("workspace")) {}
    };

    kittens_device static void prefetch(const globals& g) {
        prefetch_maps(g.qkv, g.out, g.gate, g.up, g.down, g.head, g.k, g.v);
    }
    kittens_device static void sync() { sync_named(2, consumers); }

    // Where a page lies in its matrix.
    struct place_of_page {
        int row, step, steps;

        kittens_device place_of_page(const instruction& t, int n, const globals& g) {
            const divisor& across = t.opcode == opcode::down  ? g.inner_steps
                                    : t.opcode == opcode::out ? g.query_steps
                                                              : g.width_steps;
            steps = across.value;
            row = across.divide(t.first + n, step);
        }
    };
    // The keys of a sequence, the new one among them, in pages; `each` of them a part, and of a part [first, end).
    struct share {
        int length, pages, each, first, end;

        kittens_device share(const globals& g, int sequence, int split, int round) {
            length = g.length(sequence, round);
            pages = divide_up(length, keys);
            const int even = g.splits.divide(pages + g.splits.value - 1);
            each = even > 2 * pages_at_once ? even : 2 * pages_at_once;
            first = split * each < pages ? split * each : pages;
            end = first + each < pages ? first + each : pages;
        }
        kittens_device share(const globals& g, const instruction& t) : share(g, t.sequence(), t.split(), t.round) {}
        kittens_device bool has_fresh() const { return first < end && end == pages; }
    };
    kittens_device static int pages_of(const instruction& t, const globals& g) {
        if (t.opcode != opcode::attend) return t.count;
        const share own(g, t);
        return own.end - own.first;
    }
    kittens_device static int rounds(const globals& g) { return g.rounds; }
    kittens_device static int in_flight(const instruction& t, const globals& g) {
        return t.opcode == opcode::head ? g.flight_of_head : g.flight;
    }
    kittens_device static bool leaves(const instruction& t, int n, const globals& g) {
        if (n + 1 == pages_of(t, g)) return true;
        const place_of_page at(t, n, g);
        return t.opcode != opcode::attend && at.step + 1 == at.steps &&
               (t.opcode != opcode::gate_up || at.row % 2 == 1);
    }
    kittens_device static void load(page& into, const instruction& t, int n, semaphore& full, const globals& g) {
        if (t.opcode == opcode::attend) {
            // What the round before has appended.
            if (t.layer == 0 && n == 0 && t.round > 0) await(g.said(), block_count() * t.round);
            auto& both = reinterpret_cast<key_page&>(into);
            const coord at{t.layer * g.batch() + t.sequence(), t.kv_head(), share(g, t).first + n, 0};
            load_async(both.k, g.k, at, full);
            load_async(both.v, g.v, at, full);
            return;
        }
        const place_of_page at(t, n, g);
        const bool both = t.opcode == opcode::gate_up;
        const matrix& weights = both                       ? (at.row % 2 == 0 ? g.gate : g.up)
                                : t.opcode == opcode::qkv  ? g.qkv
                                : t.opcode == opcode::out  ? g.out
                                : t.opcode == opcode::down ? g.down
                                                           : g.head;
        load_async(into, weights, coord{0, t.layer, both ? at.row / 2 : at.row, at.step}, full);
    }

    // What a beginning needs and no block hands over: asked for before the await, since behind it pages are in the way.
    struct early {
        rv_fl<64> weight[Own];
        rv_fl<Dim / 2> cosine, sine, bias[2], gain[2];

        kittens_device void bring(const instruction& t, const globals& g) {
            if (t.opcode == opcode::out || t.opcode == opcode::down) return;
            if (t.opcode == opcode::attend) {
                const int position = g.length(t.sequence(), t.round) - 1;
                kittens::load(cosine, g.cosine, element_coord{0, 0, position, 0});
                kittens::load(sine, g.sine, element_coord{0, 0, position, 0});
                return bring_head(t, warp_index(), g);
            }
#pragma unroll
            for (int i = 0; i < Own; i++) {
                zero(weight[i]);
                if (column_of(i) < g.width)
                    kittens::load(weight[i], g.norms, element_coord{0, 0, norm_of(t, g), column_of(i)});
            }
        }
        kittens_device void bring_head(const instruction& t, int i, const globals& g) {
            const int head = row_of_head(t, i, g);
            if (i >= g.group + 2) return;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int column = half * (Dim / 2);
                if (g.biased) kittens::load(bias[half], g.bias, element_coord{0, 0, t.layer, head * Dim + column});
                if (g.normed_heads && i <= g.group)
                    kittens::load(gain[half], g.head_norms, element_coord{0, 0, 2 * t.layer + (i == g.group), column});
            }
        }
    };
    kittens_device static int norm_of(const instruction& t, const globals& g) {
        return t.opcode == opcode::head ? 2 * g.layers : 2 * t.layer + (t.opcode == opcode::gate_up);
    }
    // Of what an attend needs of q k v: first the queries of its key head, then the key, then the value.
    kittens_device static int row_of_head(const instruction& t, int i, const globals& g) {
        if (i < g.group) return t.kv_head() * g.group + i;
        return g.heads + t.kv_head() + (i == g.group ? 0 : g.kv_heads);
    }

    // The tokens, a warp each: those of the launch, or what all blocks' logits have said.
    template <typename Team>
    kittens_device static void begin_round(keeping& own, const Team& all, const instruction& t, const globals& g) {
        const int sequence = warp_index();
        if (t.round > 0) all.await_together(g.said(), block_count() * t.round, false);
        if (sequence < g.batch())
            store_number(own.shared.words[sequence], t.round == 0
                                                         ? load_integer(g.tokens, element_coord{0, 0, 0, sequence})
                                                         : chosen(sequence, t.round - 1, g));
        all.sync();
    }
    // The token of the largest logit of a round; of equal ones the lowest. Of logits that are no numbers it is any.
    kittens_device static int chosen(int sequence, int round, const globals& g) {
        constexpr int at_once = 128;
        float top = -INFINITY, lowest = 1;
#pragma unroll 1
        for (int i = 0; i < best_columns(block_count()); i += at_once) {
            rv_fl<at_once> logit, word;
            const element_coord at{0, 0, 0, g.first_best(sequence, round) + i};
            kittens::load(logit, g.best, at);
            kittens::load(word, g.best_word, at);
            map(logit, logit, word, [](float l, float w) { return w > 0 ? l : -INFINITY; });
            const float largest = max(logit);
            map(word, logit, word, [=](float l, float w) { return l == largest && w > 0 ? w : INFINITY; });
            if (largest > top) top = largest, lowest = min(word);
        }
        return int(lowest) - 1;
    }

    template <typename Team>
    kittens_device static void begin(keeping& own, const Team& all, const instruction& t, const globals& g) {
        early kept;
        kept.bring(t, g);
        bring_before(own, t, 0, g);
        if (t.signals == 0) begin_round(own, all, t, g);
        else all.await_together(g.ready[t.signals - 1], t.at_least * (t.round + 1), false);
        switch (t.opcode) {
            case opcode::attend: begin_attend(own, kept, t, g); break;
            case opcode::out: merge_heads(own, t, g); break;
            case opcode::down: read_act(own, t, g); break;
            default: norm(own, all, kept, t, g);
        }
        all.sync();
        clear_sums(own);
        clear_results(own);
    }

    kittens_device static void clear_sums(keeping& own) {
        zero(own.sum[0]);
        zero(own.sum[1]);
    }
    kittens_device static void clear_results(keeping& own) {
#pragma unroll
        for (auto& o : own.o) zero(o);
        own.state = online_softmax<>();
    }
    kittens_device static bool adds(const instruction& t) {
        return t.opcode == opcode::out || t.opcode == opcode::down;
    }
    // Of out and down, which follow one another: how many came before.
    kittens_device static int order_of(const instruction& t) { return 2 * t.layer + (t.opcode == opcode::down); }
    kittens_device static int slot_of(const instruction& t, int n, const place_of_page& at) {
        return n + t.first % at.steps < at.steps ? t.slot : 0;
    }
    // Whether a row block's sums are added to x of before by the first warp: that of the n-th page. The storer adds the
    // embedding.
    kittens_device static bool adds_before(const instruction& t, const place_of_page& at, int n) {
        return warp_index() == 0 && adds(t) && order_of(t) > 0 && slot_of(t, n, at) == 0;
    }
    kittens_device static void bring_before(keeping& own, const instruction& t, int n, const globals& g) {
        const place_of_page at(t, n, g);
        zero(own.before);
        if (n >= t.count || !adds_before(t, at, n)) return;
        const int first = (order_of(t) - 1) * g.added_slots;
        kittens::load(own.before, g.added, element_coord{0, first, 0, page_rows * at.row});
        for (int slot = 1; slot < g.added_slots; slot++) {
            rt_fl<16, 16> more;
            kittens::load(more, g.added, element_coord{0, first + slot, 0, page_rows * at.row});
            add(own.before, own.before, more);
        }
    }

    // Columns of x that a warp has: every eighth 64.
    kittens_device static int column_of(int i) { return 64 * (warp_index() + consumers * i); }
    // x, and its norm as the input of an operation.
    template <typename Team>
    kittens_device static void norm(keeping& own, const Team& all, const early& kept, const instruction& t,
                                    const globals& g) {
        rv_fl<64> x[Batch][Own];
        read_x(x, own, norm_of(t, g) - 1, g);
#pragma unroll
        for (int s = 0; s < Batch; s++) {
            rv_fl<64> squares, square;
            zero(squares);
#pragma unroll
            for (int i = 0; i < Own; i++) {
                map(square, x[s][i], [](float v) { return v * v; });
                add(squares, squares, square);
            }
            store_value(own.shared.squares, consumers * s + warp_index(), sum(squares));
        }
        all.sync();
        const int padded = g.width_steps.value * (page_columns / 64);
#pragma unroll
        for (int s = 0; s < Batch; s++) {
            if (s >= g.batch()) continue;
            float total = 0.f;
#pragma unroll
            for (int i = 0; i < consumers; i++) total += load_value(own.shared.squares, consumers * s + i);
            const float scale = math::rsqrt(total / g.width + g.epsilon);
#pragma unroll
            for (int i = 0; i < Own; i++) {
                const int unit = warp_index() + consumers * i;
                map(x[s][i], kept.weight[i], x[s][i], [=](float w, float v) { return w * (v * scale); });
                if (unit < padded) kittens::store(own.shared.input[unit * g.batch() + s], x[s][i]);
            }
        }
    }
    // The embedding, or the slots of the operation before, of several sequences at a time; zeros beyond the width.
    kittens_device static void read_x(rv_fl<64> (&x)[Batch][Own], const keeping& own, int before, const globals& g) {
        constexpr int at_once = Batch * Own > 16 ? 16 / Own : Batch;
#pragma unroll
        for (int s = 0; s < Batch; s++)
#pragma unroll
            for (int i = 0; i < Own; i++) {
                const bool there = s < g.batch() && column_of(i) < g.width;
                zero(x[s][i]);
                if (there && before >= 0) {
                    kittens::load(x[s][i], g.added, element_coord{0, before * g.added_slots, s, column_of(i)});
                } else if (there) {
                    kittens::load(x[s][i], g.embedding,
                                  element_coord{0, 0, load_number(own.shared.words[s]), column_of(i)});
                }
            }
        if (before < 0) return;
#pragma unroll 1
        for (int slot = 1; slot < g.added_slots; slot++)
#pragma unroll
            for (int from = 0; from < Batch; from += at_once) {
                rv_fl<64> more[at_once][Own];
#pragma unroll
                for (int s = 0; s < at_once; s++)
#pragma unroll
                    for (int i = 0; i < Own; i++) {
                        zero(more[s][i]);
                        const element_coord at{0, before * g.added_slots + slot, from + s, column_of(i)};
                        if (from + s < g.batch() && column_of(i) < g.width) kittens::load(more[s][i], g.added, at);
                    }
#pragma unroll
                for (int s = 0; s < at_once; s++)
#pragma unroll
                    for (int i = 0; i < Own; i++) add(x[from + s][i], x[from + s][i], more[s][i]);
            }
    }

    // Warps have a head each; groups of 7 and 8 heads have more heads than there are warps.
    kittens_device static void begin_attend(keeping& own, early& kept, const instruction& t, const globals& g) {
        const int group = g.group;
        if (pages_of(t, g) == 0) return;
        auto& shared = own.shared.attended;
#pragma unroll 1
        for (int i = warp_index(); i < group + 2; i += consumers) {
            if (i >= consumers) kept.bring_head(t, i, g);
            rv_fl<Dim / 2> a, b, more, turned;
            zero(a);
            zero(b);
            for (int slot = 0; slot < g.projected_slots; slot++) {
                const int slots = t.layer * g.projected_slots + slot, column = row_of_head(t, i, g) * Dim;
                kittens::load(more, g.projected, element_coord{0, slots, t.sequence(), column});
                kittens::load(turned, g.projected, element_coord{0, slots, t.sequence(), column + Dim / 2});
                add(a, a, more);
                add(b, b, turned);
            }
            if (g.biased) {
                add(a, a, kept.bias[0]);
                add(b, b, kept.bias[1]);
            }
            if (i <= group) {
                if (g.normed_heads) norm_head(a, b, kept, g);
                mul(turned, a, kept.cosine);
                map_sum(turned, b, kept.sine, -1.f);
                mul(b, b, kept.cosine);
                map_sum(b, a, kept.sine, 1.f);
                copy(a, turned);
            }
            kittens::store(i < group ? shared.q[0][i] : shared.fresh[i - group][0], a);
            kittens::store(i < group ? shared.q[1][i] : shared.fresh[i - group][1], b);
        }
    }
    kittens_device static void norm_head(rv_fl<Dim / 2>& a, rv_fl<Dim / 2>& b, const early& kept, const globals& g) {
        rv_fl<Dim / 2> squares;
        map(squares, a, b, [](float x, float y) { return x * x + y * y; });
        const float scale = math::rsqrt(sum(squares) / Dim + g.epsilon);
        map(a, a, kept.gain[0], [=](float x, float w) { return w * (x * scale); });
        map(b, b, kept.gain[1], [=](float x, float w) { return w * (x * scale); });
    }
    // dst += sign x y
    template <typename Vec> kittens_device static void map_sum(Vec& dst, const Vec& x, const Vec& y, float sign) {
        Vec product;
        mul(product, x, y);
        map(dst, dst, product, [=](float d, float p) { return d + sign * p; });
    }
    // 64 columns of rows whose halves are apart: from those `at` of them, in the tile from row `to` on.
    kittens_device static void load_columns(rt_bf<16, 64>& tile, const half_row* first, const half_row* second, int at,
                                            int rows, int to = 0) {
        if constexpr (Dim == 128) {
            load_rows(tile, at == 0 ? first : second, rows, to);
        } else {
            rt_bf<16, 32> half;
            load_rows(half, first, rows, to);
            place(tile, half, 0, 0);
            load_rows(half, second, rows, to);
            place(tile, half, 0, 1);
        }
    }

    // Parts of the keys that blocks have attended become the input of out. Units of 64 columns of a sequence are merged
    // four at a time, two parts of each.
    kittens_device static void merge_heads(keeping& own, const instruction& t, const globals& g) {
        constexpr int at_once = 4, slots = 2;
        const int units = g.heads * units_of_head * g.batch(),
                  padded = g.query_steps.value * (page_columns / 64) * g.batch();
#pragma unroll 1
        for (int first = warp_index(); first < padded; first += consumers * at_once) {
            merged_row<64> whole[at_once];
            int pages[at_once], each[at_once];
#pragma unroll
            for (int h = 0; h < at_once; h++) {
                const int unit = first + consumers * h;
                const share all(g, unit % g.batch(), 0, t.round);
                pages[h] = unit < units ? all.pages : 0, each[h] = all.each;
            }
            bool more = true;
#pragma unroll 1
            for (int split = 0; more; split += slots) {
                more = false;
                rv_fl<64> of[at_once][slots];
                weighed log[at_once][slots];
#pragma unroll
                for (int h = 0; h < at_once; h++)
#pragma unroll
                    for (int i = 0; i < slots; i++) {
                        if ((split + i) * each[h] >= pages[h]) {
                            zero(of[h][i]);
                            log[h][i] = {-INFINITY, 0.f};
                            continue;
                        }
                        const int unit = first + consumers * h, column = 64 * (unit / g.batch());
                        const int row = g.slot_of(t.layer, unit % g.batch(), column / Dim, split + i);
                        kittens::load(of[h][i], g.partial, element_coord{0, 0, row, column % Dim});
                        log[h][i] = {load_value(g.partial_lse, element_coord{0, 0, 0, row}), 1.f};
                    }
#pragma unroll
                for (int h = 0; h < at_once; h++) {
                    whole[h].add(of[h], log[h]);
                    more |= (split + slots) * each[h] < pages[h];
                }
            }
#pragma unroll
            for (int h = 0; h < at_once; h++) {
                whole[h].finish();
                const int unit = first + consumers * h;
                if (unit < padded) kittens::store(own.shared.input[unit], whole[h].sum);
            }
        }
    }
    // silu(gate) up becomes the input of down, 64 columns of a sequence by a load of four bytes a lane.
    kittens_device static void read_act(keeping& own, const instruction& t, const globals& g) {
        constexpr int at_once = 16;
        const int units = g.inner / 64 * g.batch(), padded = g.inner_steps.value * (page_columns / 64) * g.batch();
#pragma unroll 1
        for (int first = warp_index(); first < padded; first += consumers * at_once) {
            rv_fl<32> words[at_once];
#pragma unroll
            for (int i = 0; i < at_once; i++) {
                const int unit = first + consumers * i;
                zero(words[i]);
                if (unit >= units) continue;
                const element_coord at{0, t.layer, unit % g.batch(), 32 * (unit / g.batch())};
                kittens::load(words[i], g.act_words, at);
            }
#pragma unroll
            for (int i = 0; i < at_once; i++) {
                const int unit = first + consumers * i;
                if (unit < padded) kittens::store(reinterpret_cast<sv_fl<32>&>(own.shared.input[unit]), words[i]);
            }
        }
    }

    kittens_device static void use(keeping& own, page& in, const instruction& t, int n, const globals& g) {
        if (t.opcode == opcode::attend) {
            attend(own, reinterpret_cast<key_page&>(in), t, n, g);
            zero(own.before);
            return clear_sums(own);  // so that attending has their registers
        }
        const place_of_page at(t, n, g);
        rt_bf<16, 64> x;
        load_rows(x, own.shared.input + (consumers * at.step + warp_index()) * g.batch(), g.batch());
        auto& weights = subtile<16, 64>(in, 0, warp_index());
        if (t.opcode == opcode::gate_up && at.row % 2 == 1) mma_ABt(own.sum[1], x, weights);
        else mma_ABt(own.sum[0], x, weights);
    }
    kittens_device static void attend(keeping& own, key_page& in, const instruction& t, int n, const globals& g) {
        if (warp_index() / key_tiles != n % pages_at_once) return;
        const share part(g, t);
        const int tile = warp_index() % key_tiles, left = part.length - (part.first + n) * keys - 16 * tile;
        if (left <= 0) return;
        auto& shared = own.shared.attended;
        if (left <= 16) {
#pragma unroll 1
            for (int i = 0; i < 2; i++) put_fresh(i == 0 ? in.k : in.v, tile, shared.fresh[i], left - 1);
            sync_warp();  // lanes multiply by what others have stored
            fence_async();
        }
        rt_fl<16, 16> scores;
        rt_bf<16, 16> weights;
        rt_fl<16, 16>::col_vec shrink;
        zero(scores);
#pragma unroll
        for (int i = 0; i < units_of_head; i++) {
            rt_bf<16, 64> q;
            load_columns(q, shared.q[0], shared.q[1], i, g.group);
            mma_ABt(scores, q, subtile<16, 64>(in.k, tile, i));
        }
        if (left < 16) right_fill(scores, scores, left, -INFINITY);
        const bool moves = own.state.step(scores, shrink, g.scale);
        copy(weights, scores);
#pragma unroll
        for (int i = 0; i < units_of_head; i++) {
            if (moves) mul_row(own.o[i], own.o[i], shrink);
            mma_AB(own.o[i], weights, subtile<16, 64>(in.v, tile, i));
        }
    }
    // Row `row` of 16 becomes the token's; what lies behind it may be anything, and becomes zeros.
    kittens_device static void put_fresh(key_tile& all, int tile, const half_row* halves, int row) {
#pragma unroll
        for (int i = 0; i < units_of_head; i++) {
            rt_bf<16, 64> old, fresh;
            auto& part = subtile<16, 64>(all, tile, i);
            kittens::load(old, part);
            load_columns(fresh, halves, halves + 1, i, 1, row);
            lower_fill(old, old, row);
            add(old, old, fresh);
            kittens::store(part, old);
        }
    }

    kittens_device static void leave(part& out, keeping& own, const instruction& t, int n, const globals& g) {
        if (t.opcode == opcode::attend) return leave_attended(own, t, g);
        const int warp = warp_index();
        if (adds_before(t, place_of_page(t, n, g), n)) add(own.sum[0], own.sum[0], own.before);
        bring_before(own, t, n + 1, g);
        store_rows(out.sums[0][warp], own.sum[0], g.batch());
        if (t.opcode == opcode::gate_up) store_rows(out.sums[1][warp], own.sum[1], g.batch());
        clear_sums(own);
        clear_results(own);  // so that this has their registers
    }
    // The warps' results are merged, 64 columns of a row by a warp, and stored; so are the new key and value.
    kittens_device static void leave_attended(keeping& own, const instruction& t, const globals& g) {
        const share part(g, t);
        auto& shared = own.shared.attended;
        rt_fl<16, 16>::col_vec factor, lse;
        own.state.finish(factor, lse);
#pragma unroll
        for (int i = 0; i < units_of_head; i++) {
            mul_row(own.o[i], own.o[i], factor);
            store_rows(shared.o[warp_index()][i], own.o[i], g.group);
        }
        kittens::store(shared.lse[warp_index()], lse);
        sync();
#pragma unroll 1
        for (int i = warp_index(); i < g.group * units_of_head; i += consumers) {
            const int member = i / units_of_head, unit = i % units_of_head;
            rv_fl<64> of[consumers];
            weighed log[consumers];
#pragma unroll
            for (int warp = 0; warp < consumers; warp++) {
                kittens::load(of[warp], shared.o[warp][unit][member]);
                log[warp] = {load_value(shared.lse[warp], member) * log2_e, 1.f};
            }
            merged_row<64> whole;
            whole.add(of, log);
            whole.finish();
            const int row = g.slot_of(t.layer, t.sequence(), t.kv_head() * g.group + member, t.split());
            kittens::store(g.partial, whole.sum, element_coord{0, 0, row, 64 * unit});
            if (unit == 0) put(g.partial_lse, whole.top + math::log2(whole.total), row);
        }
        const int half = consumers - 1 - warp_index();  // by the last four warps, which have no row of few
        if (half >= 4 || !part.has_fresh()) return;
        rv_bf<Dim / 2> fresh;
        kittens::load(fresh, shared.fresh[half / 2][half % 2]);
        const element_coord at{t.layer * g.batch() + t.sequence(), t.kv_head(), part.length - 1, half % 2 * (Dim / 2)};
        kittens::store(half < 2 ? g.k : g.v, fresh, at);
    }

    kittens_device static void added_up(rv_fl<16>& sum, const sv_fl<16> (&of)[consumers][Batch], int sequence) {
        rv_fl<16> all[consumers];
#pragma unroll
        for (int i = 0; i < consumers; i++) kittens::load(all[i], of[i][sequence]);
        copy(sum, all[0]);
#pragma unroll
        for (int i = 1; i < consumers; i++) add(sum, sum, all[i]);
    }
    kittens_device static void store(part& left, keeping& own, const instruction& t, int n, const globals& g) {
        if (t.opcode == opcode::attend) return;
        const place_of_page at(t, n, g);
        const int column = page_rows * (t.opcode == opcode::gate_up ? at.row / 2 : at.row), slot = slot_of(t, n, at);
#pragma unroll 1
        for (int s = 0; s < g.batch(); s++) {
            rv_fl<16> sum, up;
            added_up(sum, left.sums[0], s);
            if (t.opcode == opcode::gate_up) {
                added_up(up, left.sums[1], s);
                map(sum, sum, up, [](float a, float b) { return a * b * math::reciprocal(1.f + math::exp(-a)); });
                kittens::store(g.act, sum, element_coord{0, t.layer, s, column});
            } else if (t.opcode == opcode::qkv) {
                kittens::store(g.projected, sum, element_coord{0, t.layer * g.projected_slots + slot, s, column});
            } else if (t.opcode == opcode::head) {
                kittens::store(g.logits, sum, element_coord{0, 0, s, column});
                keep_best(own, sum, s, at.row, n + 1 == at.steps);
            } else {
                if (order_of(t) == 0 && slot == 0) {
                    kittens::load(up, g.embedding, element_coord{0, 0, load_number(own.shared.words[s]), column});
                    add(sum, sum, up);
                }
                kittens::store(g.added, sum, element_coord{0, order_of(t) * g.added_slots + slot, s, column});
            }
        }
    }
    // Row blocks come in their order, so that the first of equal logits stays.
    kittens_device static void keep_best(keeping& own, const rv_fl<16>& logits, int sequence, int row, bool first) {
        rv_fl<16> best, its_row, more;
        fill(its_row, row);
        if (first) {
            copy(best, logits);
        } else {
            rv_fl<16> old_row;
            kittens::load(best, own.shared.best[sequence]);
            kittens::load(old_row, own.shared.best_row[sequence]);
            map(more, logits, best, [](float l, float b) { return l > b ? 1.f : 0.f; });
            map(its_row, old_row, more, [=](float old, float m) { return m > 0 ? row : old; });
            map(best, best, logits, [](float b, float l) { return l > b ? l : b; });
        }
        kittens::store(own.shared.best[sequence], best);
        kittens::store(own.shared.best_row[sequence], its_row);
    }
    kittens_device static void end(keeping& own, const instruction& t, const globals& g) {
        if (t.opcode == opcode::head) return end_round(own, t, g);
        signal(g.ready[t.signals]);
    }
    // Tells all blocks the largest of this one's logits; the first block writes what all have chosen.
    kittens_device static void end_round(keeping& own, const instruction& t, const globals& g) {
        if (!g.chooses) return;
#pragma unroll 1
        for (int s = 0; s < g.batch(); s++) {
            float top = -INFINITY, word = INFINITY;
#pragma unroll
            for (int i = 0; i < page_rows; i++) {
                const float l = load_value(own.shared.best[s], i);
                const float w = page_rows * load_value(own.shared.best_row[s], i) + i + 1;
                if (l > top || (l == top && w < word)) top = l, word = w;
            }
            const int place = g.first_best(s, t.round) + block_index();
            put(g.best, top, place);
            put(g.best_word, word, place);
        }
        signal(g.said());
        if (block_index() > 0) return;
        await(g.said(), block_count() * (t.round + 1));
#pragma unroll 1
        for (int s = 0; s < g.batch(); s++)
            put(g.chosen, std::bit_cast<float>(chosen(s, t.round, g)), s * g.rounds + t.round);
    }
    template <typename To> kittens_device static void put(const To& to, float value, int place) {
        rv_fl<16> all;
        fill(all, value);
        store_elements(to, all, [=](int i) { return i == 0 ? place : -1; });
    }
};

}  // namespace tk::llama_decode
