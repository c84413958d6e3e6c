// What kernels that follow a plan (layout.h) have in common: reading an instruction, and merging results of pieces.
#pragma once

#include "kittens.cuh"

#include "layout.h"

namespace tk::decode_plan {

using namespace kittens;

// One instruction, as a warp reads it from its block's queue.
struct instruction {
    int opcode, sequence, kv_head, row_tile, first_key, end_key, slot, counter, first_slot, slots, first_row, end_row;
    int length;

    // The block's n-th, if there is one. queues: (block and instruction, field).
    template <global_tensor Queues> kittens_device bool read(const Queues& queues, int capacity, int n) {
        if (n == capacity) return false;
        integer_row in(queues, block_index() * capacity + n);
        opcode = in.at(field::opcode);
        sequence = in.at(field::sequence), kv_head = in.at(field::kv_head), row_tile = in.at(field::row_tile);
        first_key = in.at(field::first_key), end_key = in.at(field::end_key);
        slot = in.at(field::slot), counter = in.at(field::counter);
        first_slot = in.at(field::first_slot), slots = in.at(field::slots);
        first_row = in.at(field::first_row), end_row = in.at(field::end_row);
        length = in.at(field::length);
        return opcode != opcode::stop;
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
    // The slots [from, to) of a row, from one of its columns on; the loads of eight are under way at once.
    template <global_tensor Sums, global_tensor Logs>
    kittens_device void add_slots(const Sums& sums, const Logs& logs, int from, int to, int row, int column) {
        constexpr int together = 8;
        for (int slot = from; slot < to; slot += together) {
            rv_fl<Dim> part[together];
            float log[together];
#pragma unroll
            for (int i = 0; i < together; i++)
                if (slot + i < to) {
                    load(part[i], sums, element_coord{0, slot + i, row, column});
                    log[i] = load_value(logs, element_coord{0, 0, slot + i, row});
                } else {
                    zero(part[i]);
                    log[i] = -INFINITY;
                }
            add(part, log);
        }
    }
    // The result, and the natural logarithm of its sum.
    kittens_device float finish() {
        mul(sum, sum, total == 0.f ? 0.f : 1.f / total);
        return top + 0.6931471805599453f * math::log2(total);
    }
};

}  // namespace tk::decode_plan
