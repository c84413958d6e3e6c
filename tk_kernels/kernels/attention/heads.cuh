// What both directions of attention share: the tensors, what a query may see, and the order of the work.
#pragma once

#include "kittens.cuh"

#include "attention.h"

namespace tk::attention {

using namespace kittens;

// Which block of rows of which head is computed when.
struct schedule {
    int heads;       // of the whole batch
    int row_blocks;  // of a head
    bool paired;     // a block of the grid takes two blocks of rows in a row, one from either end of a head
    bool longest;  // the last rows of all heads first, and every other round dealt backwards: even where rounds are few
    bool interleaved;  // one block (or pair) of every head, then the next; else all of a head, then the next head
    divisor inner;

    schedule(int heads_, int row_blocks_, bool paired_, bool longest_, bool interleaved_)
        : heads(heads_),
          row_blocks(row_blocks_),
          paired(paired_ && !longest_),
          longest(longest_),
          interleaved(interleaved_ || longest_),
          inner(interleaved ? heads_ : per_head()) {}

    struct place {
        int head, row_block;  // row_block is row_blocks for the missing half of a middle pair
    };
    kittens_host_device int per_head() const { return paired ? (row_blocks + 1) / 2 : row_blocks; }
    kittens_host_device int tasks() const { return heads * per_head(); }

    // The i-th of block `block` of `blocks`; false: no more.
    kittens_host_device bool at(place& p, int block, int blocks, int i) const {
        const int round = paired ? i / 2 : i;
        const int index = round * blocks + (longest && round % 2 == 1 ? blocks - 1 - block : block);
        if (index >= tasks()) return false;
        const int outer = inner.divide(index), rest = index - outer * inner.value;
        const int row = interleaved ? outer : rest, opposite = row_blocks - 1 - row;
        p.head = interleaved ? rest : outer;
        p.row_block = !paired ? longest ? opposite : row : i % 2 == 0 ? opposite : row == opposite ? row_blocks : row;
        return true;
    }
};

using rows_vec = rt_fl<16, 16>::col_vec;                     // one value for each of a warp's 16 rows
using row_values = gl<float, dynamic, dynamic, 1, dynamic>;  // (batch, head, 1, row)

}  // namespace tk::attention
