// Which rows of which head a block of the grid computes: heads are cut into blocks of rows, each of which is a task.
#pragma once

namespace kittens {

// Heads of a batch x blocks of rows, one after another: those of a head together.
struct row_grid {
    divisor heads, row_blocks;

    struct place {
        int batch, head, block;
    };
    row_grid(int64_t heads_, int64_t rows, int block_rows)
        : heads(int(heads_)), row_blocks(int(divide_up(rows, block_rows))) {}

    int64_t tasks(int64_t batch) const { return batch * heads.value * row_blocks.value; }
    kittens_host_device place at(int index) const {
        const int head = row_blocks.divide(index), batch = heads.divide(head);
        return {batch, head - batch * heads.value, index - head * row_blocks.value};
    }
};

// The same where blocks of rows differ in length, the last ones being the longest: which of them is computed when.
struct row_schedule {
    int heads;       // of the whole batch
    int row_blocks;  // of a head
    bool paired;     // a block of the grid takes two blocks of rows in a row, one from either end of a head
    bool longest;  // the last rows of all heads first, and every other round dealt backwards: even where rounds are few
    bool interleaved;  // one block (or pair) of every head, then the next; else all of a head, then the next head
    divisor inner;

    row_schedule(int heads_, int row_blocks_, bool paired_, bool longest_, bool interleaved_)
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

}  // namespace kittens
