// The program of a Llama's token (kittens/program/layout.h): which block multiplies by which rows of which weights, and
// who waits for whom. Plain C++.
//
// A page is 16 rows of a matrix and 512 columns. Pages of a matrix are numbered row block by row block, columns inside;
// those of gate and up in turn, a row block of gate and the same of up. An instruction has a run of them. Where runs
// meet inside a row block it has several sources, each of which stores its sums in a slot of its own; readers add the
// slots in their order, so that the result does not depend on who was first.
//
// An operation of a layer awaits the one before of all blocks, and raises a counter of its own; so does the head, for
// the round that follows. A program is one round, a token of each sequence; it serves all positions.
#pragma once

#include "kittens/program/check.h"

namespace tk::llama_decode {

using kittens::program::header_ints, kittens::program::instruction_ints;

constexpr int version = 2, page_rows = 16, page_columns = 512, most_splits = 16, most_group = 8;

// The header, by index.
namespace header {
using namespace kittens::program::header;
constexpr int layers = 4, width = 5, inner = 6, heads = 7, kv_heads = 8, dim = 9, vocabulary = 10, batch = 11;
// Parts of a sequence's keys that blocks attend side by side; slots of a row block, at most: of q k v, of the others.
constexpr int splits = 12, projected_slots = 13, added_slots = 14;
}  // namespace header

// An instruction, by index.
namespace field {
using namespace kittens::program::field;
constexpr int layer = 1;
constexpr int signals = 2, at_least = 3;             // raises a counter, awaits the one before
constexpr int first = 4, count = 5;                  // pages
constexpr int slot = 6;                              // of the first page's row block; that of the others is 0
constexpr int sequence = 4, kv_head = 5, split = 6;  // attend
}  // namespace field

// In their order in a layer; the head follows the last layer.
namespace opcode {
using namespace kittens::program::opcode;
constexpr int qkv = 1, attend = 2, out = 3, gate_up = 4, down = 5, head = 6;
}  // namespace opcode

// Of so many blocks' largest logits, which are read 128 at once.
constexpr int best_columns(int blocks) { return (blocks + 127) / 128 * 128; }

// What a program is for: its header, by name.
struct shape {
    int blocks, layers, width, inner, heads, kv_heads, dim, vocabulary, batch;
    int splits, projected_slots, added_slots;

    explicit shape(const std::int32_t* ints)
        : blocks(ints[header::blocks]),
          layers(ints[header::layers]),
          width(ints[header::width]),
          inner(ints[header::inner]),
          heads(ints[header::heads]),
          kv_heads(ints[header::kv_heads]),
          dim(ints[header::dim]),
          vocabulary(ints[header::vocabulary]),
          batch(ints[header::batch]),
          splits(ints[header::splits]),
          projected_slots(ints[header::projected_slots]),
          added_slots(ints[header::added_slots]) {}

    int queries() const { return heads * dim; }
    int projected() const { return queries() + 2 * kv_heads * dim; }
    int attends() const { return batch * kv_heads * splits; }
    // Pages across a matrix that an operation multiplies by, and row blocks down; gate and up count as one of both.
    int steps(int op) const {
        const int columns = op == opcode::down ? inner : op == opcode::out ? queries() : width;
        return (columns + page_columns - 1) / page_columns * (op == opcode::gate_up ? 2 : 1);
    }
    int row_blocks(int op) const {
        const int rows[] = {0, projected(), 0, width, inner, width, vocabulary};
        return rows[op] / page_rows;
    }
    int pages(int op) const { return row_blocks(op) * steps(op); }

    // What blocks hand over lies in one buffer of fp32, which is zeros before the first launch: so are slots that no
    // source has, always. Rows of a sequence each: (layer and slot, sequence, element), of partials (layer, sequence,
    // head, split), of act bf16; of the largest logits (two, sequence, block), and of their tokens.
    std::int64_t projected_floats() const { return std::int64_t(layers) * projected_slots * batch * projected(); }
    std::int64_t added_floats() const { return std::int64_t(2) * layers * added_slots * batch * width; }
    std::int64_t partials() const { return std::int64_t(layers) * batch * heads * splits; }
    std::int64_t logarithms() const { return (partials() + 3) / 4 * 4; }  // whole 16 bytes
    std::int64_t act_floats() const { return std::int64_t(layers) * batch * inner / 2; }
    std::int64_t best_floats() const { return std::int64_t(2) * batch * best_columns(blocks); }
    std::int64_t floats() const {
        return projected_floats() + added_floats() + partials() * dim + logarithms() + act_floats() + 2 * best_floats();
    }
};

// An instruction's part in the exchange. Who raises the head's counter as the last ends a round.
inline kittens::program::exchange exchange_of(const std::int32_t* one) {
    const int at_least = one[field::at_least], of_head = one[field::opcode] == opcode::head ? at_least : 0;
    return {.awaits = one[field::signals] - 1, .at_least = at_least, .signals = one[field::signals], .in_all = of_head};
}

}  // namespace tk::llama_decode
