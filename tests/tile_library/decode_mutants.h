// A plan for the mutants of paged decode, written by hand.
#pragma once

#include <vector>

template <int blocks, int capacity, int pieces> struct handwritten_plan {
    const int* keys;
    std::vector<int> plan;

    explicit handwritten_plan(const int* lengths)
        : keys(lengths), plan(tk::decode_plan::header_ints + blocks * capacity * tk::decode_plan::instruction_ints) {}

    int* at(int block, int n) {
        using namespace tk::decode_plan;
        return &plan[header_ints + (block * capacity + n) * instruction_ints];
    }
    void put(int block, int n, int opcode, int sequence, int first, int end, int slot) {
        using namespace tk::decode_plan;
        int* to = at(block, n);
        to[field::opcode] = opcode, to[field::sequence] = sequence;
        to[field::first_key] = first, to[field::end_key] = end, to[field::slot] = slot;
        to[field::counter] = slot < 0 ? -1 : 0, to[field::length] = keys[sequence];
        to[field::slots] = pieces;
    }
    void part(int block, int n, int first, int end) {
        using namespace tk::decode_plan;
        at(block, n)[field::first_row] = first, at(block, n)[field::end_row] = end;
    }
    void leave_to_the_last(int* one, int rows) {
        using namespace tk::decode_plan;
        const int sequence = one[field::sequence];
        one[field::counter] = sequence, one[field::first_slot] = pieces * sequence;
        one[field::last_reduces] = 1, one[field::end_row] = rows;
    }
};
