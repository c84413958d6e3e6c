// What the kernels that follow a plan (layout.h) have in common: their instruction, and merging results of pieces.
#pragma once

#include "kittens.cuh"

#include "layout.h"

namespace tk::decode_plan {

using namespace kittens;

struct instruction {
    int opcode, sequence, kv_head, row_tile, first_key, end_key, slot, counter, length;
    bool last;                                  // of its queue
    int first_slot, slots, first_row, end_row;  // read_reduction

    template <typename Row> kittens_device void read(Row& row) {
        opcode = row.brought(field::opcode), sequence = row.brought(field::sequence);
        kv_head = row.brought(field::kv_head), row_tile = row.brought(field::row_tile);
        first_key = row.brought(field::first_key), end_key = row.brought(field::end_key);
        slot = row.brought(field::slot), counter = row.brought(field::counter);
        length = row.brought(field::length);
    }
    // What to reduce. An attend asks behind its keys: registers are scarce there.
    template <typename Queue> kittens_device void read_reduction(Queue& queue) {
        first_slot = queue.brought(field::first_slot), slots = queue.brought(field::slots);
        first_row = queue.brought(field::first_row), end_row = queue.brought(field::end_row);
    }
};
using table = gl<const int, 1, 1, dynamic, dynamic>;
using queue = instruction_queue<instruction, table>;

// The keys that the call says a sequence has, if it says so: asked for early. A plan for others leaves NaN.
struct told_length {
    integer_row<table> own;
    const bool told;

    kittens_device told_length(const table& lengths, const instruction& t)
        : own(lengths, t.sequence), told(lengths.rows() > 0) {
        if (told) own.bring(0);
    }
    template <typename Rows> kittens_device void require(Rows& sums, const instruction& t) {
        if (told && own.brought(0) != t.length) fill(sums, NAN);
    }
};

// Hands over the partial of an attend, which a team's warps have stored: whether they reduce the tile, because the plan
// leaves that to whoever is the last. `told` is a number in shared memory.
template <typename Team>
kittens_device bool hand_over_partial(const Team& team, queue& queue, instruction& t, const counters& ready,
                                      int& told) {
    if (queue.brought(field::last_reduces) != 1) {
        team.signal_together(ready[t.counter]);
        return false;
    }
    t.read_reduction(queue);
    return team.signal_as_last(ready[t.counter], t.slots, told);
}

// Warps that multiply carry out their queue: `attend` says whether the block is to reduce the tile.
template <typename Team, typename Recorder, typename Attend, typename Reduce>
kittens_device void multiply_by_plan(queue& instructions, Recorder& record, const Team& team, const counters& ready,
                                     const Attend& attend, const Reduce& reduce) {
    instructions.walk(record, [&](instruction& t) {
        bool reduces = t.opcode == opcode::reduce;
        if (reduces) {
            t.read_reduction(instructions);
            team.await_together(ready[t.counter], t.slots, t.last);
        } else {
            reduces = attend(t);
        }
        if (!reduces) return;
        record.waited();
        reduce(t);
    });
}

// Where the pieces of a tile of keys lie: each in a page, from a row on. What lies behind the last page is that page
// again: no entry of the table is used but the sequence's own.
template <int Keys, int PageKeys> struct places {
    static constexpr int count = Keys / PageKeys;
    int page[count], row[count];

    template <typename Pages>
    kittens_device places(Pages& pages, int key, const instruction& t, const divisor& page_of) {
        const int last = (t.end_key - 1) / PageKeys * PageKeys;
#pragma unroll
        for (int i = 0; i < count; i++) {
            const int first = key + i * PageKeys < last ? key + i * PageKeys : last;
            page[i] = pages.at(page_of.divide(first, row[i]));
        }
    }
};

// What a piece leaves of a row beside its result: the largest of its scores in base 2, and the sum of its weights
// relative to that. Their one logarithm would not do: beside a large score it has no room for the number of keys.
struct weighed {
    float top = -INFINITY, sum = 0.f;
};

// Results of one row, merged: relative to the largest of their scores so far.
template <int Dim> struct merged_row {
    rv_fl<Dim> sum;
    float top = -INFINITY, total = 0.f;

    kittens_device merged_row() { zero(sum); }

    template <int Count> kittens_device void add(const rv_fl<Dim> (&parts)[Count], const weighed (&of)[Count]) {
        float high = top;
#pragma unroll
        for (int i = 0; i < Count; i++) high = of[i].top > high ? of[i].top : high;
        const float base = high == -INFINITY ? 0.f : high;  // nothing has been seen yet
        const float shrink = math::exp2(top - base);
        mul(sum, sum, shrink);
        total *= shrink;
#pragma unroll
        for (int i = 0; i < Count; i++) {
            const float weight = of[i].sum * math::exp2(of[i].top - base);
            map(sum, sum, parts[i], [=](float s, float p) { return s + weight * p; });
            total += weight;
        }
        top = high;
    }
    kittens_device void finish() { mul(sum, sum, total == 0.f ? 0.f : 1.f / total); }
    // The natural logarithm of the sum of weights.
    kittens_device float log() const { return 0.6931471805599453f * (top + math::log2(total)); }
};

// Adds the slots [from, to) to Rows rows from `row` on, of which those before `end` are there, from one of their
// columns on. Slots of each row are loaded together.
template <int Slots, int Rows, int Dim, global_tensor Results, global_tensor Weights>
kittens_device void add_slots(merged_row<Dim> (&into)[Rows], const Results& results, const Weights& weights, int from,
                              int to, int row, int end, int column) {
#pragma unroll 1
    for (int slot = from; slot < to; slot += Slots) {
        rv_fl<Dim> part[Rows][Slots];
        weighed of[Rows][Slots];
#pragma unroll
        for (int r = 0; r < Rows; r++)
#pragma unroll
            for (int i = 0; i < Slots; i++)
                if (slot + i < to && row + r < end) {
                    load(part[r][i], results, element_coord{0, slot + i, row + r, column});
                    of[r][i] = {load_value(weights, element_coord{0, 0, slot + i, row + r}),
                                load_value(weights, element_coord{0, 1, slot + i, row + r})};
                } else {
                    zero(part[r][i]);
                }
#pragma unroll
        for (int r = 0; r < Rows; r++) into[r].add(part[r], of[r]);
    }
}

// A warp's share of a row that few blocks reduce.
template <int Dim> struct share {
    sv_fl<Dim> result;
    sv_fl<16> weighed;
};

// The rows of a tile that are this instruction's, of Dim columns from `column` on: Rows of them side by side by each of
// so many warps, of which this is `warp`, and so many of their slots at once. `put` writes a row.
template <int Dim, int Warps, int Rows, int Slots, typename Globals, typename Put>
kittens_device void reduce_by_warp(const instruction& t, const Globals& g, int warp, int column, const Put& put) {
    for (int row = t.first_row + Rows * warp; row < t.end_row; row += Rows * Warps) {
        merged_row<Dim> whole[Rows];
        add_slots<Slots>(whole, g.partial, g.partial_weights, t.first_slot, t.first_slot + t.slots, row, t.end_row,
                         column);
#pragma unroll
        for (int i = 0; i < Rows; i++)
            if (row + i < t.end_row) put(whole[i], row + i);
    }
}
// The same where there are few: one after another, by all of these warps, a share of the slots each. `sync` is a
// barrier of theirs.
template <int Dim, int Warps, int Slots, typename Globals, typename Sync, typename Put>
kittens_device void reduce_together(const instruction& t, const Globals& g, int warp, int column,
                                    share<Dim> (&shares)[Warps], const Sync& sync, const Put& put) {
    for (int row = t.first_row; row < t.end_row; row++) {
        merged_row<Dim> own[1];
        add_slots<Slots>(own, g.partial, g.partial_weights, t.first_slot + t.slots * warp / Warps,
                         t.first_slot + t.slots * (warp + 1) / Warps, row, t.end_row, column);
        own[0].finish();
        store(shares[warp].result, own[0].sum);
        store_value(shares[warp].weighed, 0, own[0].top);
        store_value(shares[warp].weighed, 1, own[0].total);
        sync();
        if (warp == 0) {
            rv_fl<Dim> sums[Warps];
            weighed of[Warps];
            merged_row<Dim> whole;
#pragma unroll
            for (int i = 0; i < Warps; i++) {
                load(sums[i], shares[i].result);
                of[i] = {load_value(shares[i].weighed, 0), load_value(shares[i].weighed, 1)};
            }
            whole.add(sums, of);
            put(whole, row);
        }
        sync();  // the shares have been read
    }
}

// Writes columns of a row that is merged to its place in out, and with the first of them its logarithm; -1 is none.
template <int Dim, global_tensor Out, global_tensor Lse>
kittens_device void put_row(merged_row<Dim>& whole, const Out& out, int at, int column, const Lse& lse, int lse_at) {
    if (at < 0) return;
    rv_fl<16> log;
    whole.finish();
    fill(log, whole.log());
    store(out, whole.sum, element_coord{0, 0, at, column});
    if (column == 0) store_elements(lse, log, [=](int i) { return i == 0 ? lse_at : -1; });
}

}  // namespace tk::decode_plan
