// What kernels that follow a plan (layout.h) have in common: reading an instruction, and merging results of pieces; and
// what the timed ones record of their instructions: nothing.
#pragma once

#include "kittens.cuh"

#include "layout.h"

namespace tk::decode_plan {

using namespace kittens;

// No code. What takes its place is in ../decode_trace/.
struct unrecorded {
    struct where {};
    template <typename Records> kittens_device unrecorded(const where&, int, const Records&) {}
    kittens_device void start() {}
    kittens_device void waited() {}
    kittens_device void end() {}
};

struct instruction {
    int opcode, sequence, kv_head, row_tile, first_key, end_key, slot, counter, length;
    bool last;                                  // of its queue
    int first_slot, slots, first_row, end_row;  // queue::read_reduction
};

// A block's queue, as one warp reads it: the next two instructions are on their way while it carries out this one.
// Table: (block and instruction, field).
template <global_tensor Table> struct queue {
    const Table& table;
    int capacity, n = 0;
    integer_row<Table> present, ahead, behind_it;

    kittens_device queue(const Table& table_, int capacity_)
        : table(table_), capacity(capacity_), present(row(0)), ahead(row(0)), behind_it(row(1)) {
        ahead.bring(0);
        behind_it.bring(0);
    }
    // Of the n-th instruction; a queue that is full ends with its last one.
    kittens_device integer_row<Table> row(int nth) const {
        return {table, block_index() * capacity + (nth < capacity ? nth : capacity - 1)};
    }
    // The next one, if there is one.
    kittens_device bool next(instruction& t) {
        t.opcode = ahead.brought(field::opcode), t.sequence = ahead.brought(field::sequence);
        t.kv_head = ahead.brought(field::kv_head), t.row_tile = ahead.brought(field::row_tile);
        t.first_key = ahead.brought(field::first_key), t.end_key = ahead.brought(field::end_key);
        t.slot = ahead.brought(field::slot), t.counter = ahead.brought(field::counter);
        t.length = ahead.brought(field::length);
        if (n == capacity || t.opcode == opcode::stop) return false;
        t.last = n + 1 == capacity || behind_it.brought(field::opcode) == opcode::stop;
        n++;
        present = ahead, ahead = behind_it;
        behind_it = row(n + 1);
        behind_it.bring(0);
        return true;
    }
    // The part of the present one that says what to reduce. An attend asks behind its keys: registers are scarce there.
    kittens_device void read_reduction(instruction& t) {
        t.first_slot = present.brought(field::first_slot), t.slots = present.brought(field::slots);
        t.first_row = present.brought(field::first_row), t.end_row = present.brought(field::end_row);
    }
    // Whether the plan leaves an attend's tile to the block that is the last to store a partial of it.
    kittens_device bool last_reduces() { return present.brought(field::last_reduces) == 1; }
    // Signals this block's partial, which its warps have stored; whether it is the last. `sync` is a barrier of these
    // warps, and `told` a number in shared memory for them.
    template <typename Sync>
    kittens_device bool comes_last(instruction& t, const counters& ready, bool first_warp, int& told,
                                   const Sync& sync) {
        read_reduction(t);
        sync();
        if (first_warp) store_number(told, signal_and_count(ready[t.counter]));
        sync();
        return load_number(told) == t.slots;
    }
};

// Results of one row, merged: relative to the largest of their logarithms so far.
template <int Dim> struct merged_row {
    rv_fl<Dim> sum;
    float top = -INFINITY, total = 0.f;

    kittens_device merged_row() { zero(sum); }

    template <int Count> kittens_device void add(const rv_fl<Dim> (&parts)[Count], const float (&logs)[Count]) {
        float high = top;
#pragma unroll
        for (int i = 0; i < Count; i++) high = logs[i] > high ? logs[i] : high;
        const float base = high == -INFINITY ? 0.f : high;  // nothing has been seen yet
        const float shrink = math::exp2((top - base) * log2_e);
        mul(sum, sum, shrink);
        total *= shrink;
#pragma unroll
        for (int i = 0; i < Count; i++) {
            const float weight = math::exp2((logs[i] - base) * log2_e);
            map(sum, sum, parts[i], [=](float s, float p) { return s + weight * p; });
            total += weight;
        }
        top = high;
    }
    // The result, and the natural logarithm of its sum.
    kittens_device float finish() {
        mul(sum, sum, total == 0.f ? 0.f : 1.f / total);
        return top + 0.6931471805599453f * math::log2(total);
    }
};

// Adds the slots [from, to) to Rows rows from `row` on, of which those before `end` are there, from one of their
// columns on. Slots of each row are loaded together.
template <int Slots, int Rows, int Dim, global_tensor Sums, global_tensor Logs>
kittens_device void add_slots(merged_row<Dim> (&into)[Rows], const Sums& sums, const Logs& logs, int from, int to,
                              int row, int end, int column) {
#pragma unroll 1
    for (int slot = from; slot < to; slot += Slots) {
        rv_fl<Dim> part[Rows][Slots];
        float log[Rows][Slots];
#pragma unroll
        for (int r = 0; r < Rows; r++)
#pragma unroll
            for (int i = 0; i < Slots; i++)
                if (slot + i < to && row + r < end) {
                    load(part[r][i], sums, element_coord{0, slot + i, row + r, column});
                    log[r][i] = load_value(logs, element_coord{0, 0, slot + i, row + r});
                } else {
                    zero(part[r][i]);
                    log[r][i] = -INFINITY;
                }
#pragma unroll
        for (int r = 0; r < Rows; r++) into[r].add(part[r], log[r]);
    }
}

}  // namespace tk::decode_plan
