// How the blocks of a launch carry out a program (layout.h): by launch_resident, since they await one another.
//
// Each role of a block (who loads, who multiplies, ...) walks the block's queue by itself, so that a loader runs ahead
// of the others over the ends of instructions. An instruction awaits a counter at its beginning and raises one at its
// end. Counters are cleared by the last block that retires: the loader does it behind its last instruction.
#pragma once

#include "kittens/program/layout.h"

namespace kittens {

static_assert(program::words_for(1) == counters::words_for(1));

// A block's queue, as one warp reads it: the next two instructions are on their way while it carries out this one.
// `Instruction` is the kernel's own struct of the fields that it needs always: `read(row)` takes them from
// `row.brought(field)`; it has `opcode` and `last`, of its queue. Table: (block and instruction, field).
template <typename Instruction, global_tensor Table> struct instruction_queue {
    using instruction = Instruction;
    const Table& table;
    int capacity, n = 0;
    integer_row<Table> present, ahead, behind_it;

    kittens_device instruction_queue(const Table& table_, int capacity_)
        : table(table_), capacity(capacity_), present(row(0)), ahead(row(0)), behind_it(row(1)) {
        ahead.bring(0);
        behind_it.bring(0);
    }
    // Of the n-th instruction; a queue that is full ends with its last one.
    kittens_device integer_row<Table> row(int nth) const {
        return {table, block_index() * capacity + (nth < capacity ? nth : capacity - 1)};
    }
    // The next one, if there is one.
    kittens_device bool next(Instruction& t) {
        t.read(ahead);
        if (n == capacity || t.opcode == program::opcode::stop) return false;
        t.last = n + 1 == capacity || behind_it.brought(program::field::opcode) == program::opcode::stop;
        n++;
        present = ahead, ahead = behind_it;
        behind_it = row(n + 1);
        behind_it.bring(0);
        return true;
    }
    // From the first one on again, behind the present one, which is the last.
    kittens_device void restart() {
        n = 0;
        ahead = row(0), behind_it = row(1);
        ahead.bring(0);
        behind_it.bring(0);
    }
    // A field of the present one that `read` leaves out: asked for late, where registers are scarce.
    kittens_device int brought(int field) { return present.brought(field); }

    // Carries out the queue, instruction by instruction, in the words of the recorder (recorder.cuh).
    template <typename Recorder, typename CarryOut>
    kittens_device void walk(Recorder& record, const CarryOut& carry_out) {
        Instruction t;
        while (next(t)) {
            record.start();
            carry_out(t);
            record.end();
        }
    }
};

// Warps of a block that await and signal together: the first of them does it, and a barrier of theirs, which puts what
// all have stored before a signal, puts all behind an await. `over` is for the warp that retires: it counts one arrival
// when this block neither awaits nor signals any more.
template <int Warps, int Barrier> struct team {
    semaphore& over;
    bool first;

    kittens_device void sync() const { sync_named(Barrier, Warps); }
    kittens_device void await_together(const counter& c, int at_least, bool last) const {
        if (first) {
            await(c, at_least);
            if (last) arrive(over);
        }
        sync();
    }
    kittens_device void signal_together(const counter& c) const {
        sync();
        if (first) signal(c);
    }
    // A signal; whether it is the last of so many, so that these warps see what all of them hand over. `told` is a
    // number in shared memory.
    kittens_device bool signal_as_last(const counter& c, int in_all, int& told) const {
        sync();
        if (first) store_number(told, signal_and_count(c));
        sync();
        return load_number(told) == in_all;
    }
    // Behind an instruction that awaits nothing.
    kittens_device void ends(bool last) const {
        if (first && last) arrive(over);
    }
};

// By the warp that retires, behind the end of its queue.
template <typename Queue>
kittens_device void retire_behind(semaphore& over, const Queue& queue, const counters& set) {
    if (queue.n > 0) wait(over, 0);
    retire(set);
}

}  // namespace kittens
