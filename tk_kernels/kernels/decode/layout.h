// A plan: the program of the blocks of a paged decode kernel. Plain C++.
//
// Words. A query row of one (sequence, kv head) is token * group + head in group; token 0 is the oldest new one. A tile
// is `rows_per_tile` such rows: (sequence, kv head, row tile). Its keys are attended in one or several pieces. A tile
// of one piece is written out by its attend. Else each piece stores a partial (of each row an output, the largest
// score in base 2 and the sum of the weights relative to it) in a slot of its own and signals the tile's counter by 1;
// whoever reduces merges the slots in their order, so that the result does not depend on who was first.
#pragma once

#include "kittens/program/layout.h"

namespace tk::decode_plan {

using kittens::program::header_ints, kittens::program::instruction_ints;

constexpr int version = 1;

// The header, by index.
namespace header {
using namespace kittens::program::header;
constexpr int slots = 4;  // of the scratch memory; fixed, as the counters are, whatever is used of them
constexpr int rows_per_tile = 5, key_step = 6;
constexpr int batch = 7, kv_heads = 8, row_tiles = 9, new_tokens = 10, heads = 11;
constexpr int digest_low = 12, digest_high = 13;  // of the lengths that the queues were made for
constexpr int counters_used = 14, slots_used = 15;
}  // namespace header

// An instruction, by index.
namespace field {
using namespace kittens::program::field;
constexpr int sequence = 1, kv_head = 2, row_tile = 3;
// attend: the keys [first_key, end_key). first_key is a multiple of key_step, end_key is one or the length.
constexpr int first_key = 4, end_key = 5;
constexpr int slot = 6;     // attend: where its partial goes; -1: it is the only piece and writes the output itself
constexpr int counter = 7;  // attend signals it by 1 when its partial is stored; reduce awaits `slots` on it; -1: none
// reduce, and attend where last_reduces: the tile's partials are the slots [first_slot, first_slot + slots).
constexpr int first_slot = 8, slots = 9;
constexpr int last_reduces = 10;  // attend: 1: whoever is the last to signal the counter reduces the whole tile
// reduce: the rows [first_row, end_row) of the tile alone; other instructions have its other rows.
constexpr int first_row = 11, end_row = 12;
constexpr int length = 13;  // attend: keys of the sequence, the new tokens among them
}  // namespace field

namespace opcode {
using namespace kittens::program::opcode;
constexpr int attend = 1, reduce = 2;
}  // namespace opcode

// What the kernels are built for.
constexpr int mla_rows_per_tile = 64, mla_key_step = 32;
// Grouped heads: tiles of 16 or 64 rows where no more are needed, and of 128 where the target has them (tiles.cuh).
constexpr int gqa_few_rows_per_tile = 16, gqa_rows_per_tile = 64, gqa_many_rows_per_tile = 128, gqa_key_step = 64;

}  // namespace tk::decode_plan
