// A plan of decode, written by hand, and the pages that it reads.
#pragma once

#include "decode/layout.h"

namespace plan = tk::decode_plan;

template <int blocks, int per_block, int pieces> struct handwritten_plan : std::vector<int> {
    const int* keys;

    explicit handwritten_plan(const int* lengths)
        : std::vector<int>(plan::header_ints + blocks * per_block * plan::instruction_ints), keys(lengths) {}

    int* at(int block, int n) { return data() + plan::header_ints + (block * per_block + n) * plan::instruction_ints; }
    void put(int block, int n, int opcode, int sequence, int first, int end, int slot) {
        using namespace plan;
        int* to = at(block, n);
        to[field::opcode] = opcode, to[field::sequence] = sequence;
        to[field::first_key] = first, to[field::end_key] = end, to[field::slot] = slot;
        to[field::counter] = slot < 0 ? -1 : 0, to[field::length] = keys[sequence];
        to[field::slots] = pieces;
    }
    void part(int block, int n, int first, int end) {
        at(block, n)[plan::field::first_row] = first, at(block, n)[plan::field::end_row] = end;
    }
    void leave_to_the_last(int* one, int rows) {
        using namespace plan;
        const int sequence = one[field::sequence];
        one[field::counter] = sequence, one[field::first_slot] = pieces * sequence;
        one[field::last_reduces] = 1, one[field::end_row] = rows;
    }
};

// Pages whose numbers in memory are those of the table. Every other 64 keys are eight times as large as those
// before, so that maxima move and stay; behind a sequence's end there are no numbers.
template <int page, int width, int B, int D> struct pages : mutants::given<kittens::bf16> {
    explicit pages(const int (&lengths)[B]) : mutants::given<kittens::bf16>(B * width * page * D) {
        for (int b = 0; b < B; b++)
            for (int key = 0; key < width * page; key++)
                for (int d = 0; d < D; d++) {
                    kittens::bf16& x = (*this)[((key / page * B + b) * page + key % page) * D + d];
                    x = kittens::from_float<kittens::bf16>(
                        key >= lengths[b] ? NAN : kittens::to_float(x) * (key / 64 % 2 ? 2 : 0.25f));
                }
    }
    static std::vector<int> table(const int (&lengths)[B]) {
        std::vector<int> numbers(B * width, 1 << 30);
        for (int b = 0; b < B; b++)
            for (int i = 0; i * page < lengths[b]; i++) numbers[b * width + i] = i * B + b;
        return numbers;
    }
};
