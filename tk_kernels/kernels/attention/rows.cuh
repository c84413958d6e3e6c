// Which rows of which head a block of the grid computes: heads are cut into blocks of rows, each of which is a task.
#pragma once

#include "kittens.cuh"

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

// The same in bands of heads, of which blocks that run at the same time share keys and values: the last rows of all of
// a band's heads first, which are the longest ones where queries see the keys before them.
struct row_bands {
    int row_blocks;        // of a head
    divisor tasks, heads;  // of a band

    struct place {
        int head, row_block;  // head of the whole batch
    };
    // `heads` of the whole batch, at most `band` of them in a band: a divisor, so that bands are alike.
    row_bands(int heads_, int row_blocks_, int band) : row_bands(row_blocks_, largest_divisor(heads_, band)) {}

    kittens_host_device place at(int index) const {
        int rest, head;
        const int band = tasks.divide(index, rest), row = heads.divide(rest, head);
        return {band * heads.value + head, row_blocks - 1 - row};
    }

  private:
    row_bands(int row_blocks_, int band) : row_blocks(row_blocks_), tasks(band * row_blocks_), heads(band) {}
    static int largest_divisor(int of, int most) {
        int found = std::min(of, std::max(most, 1));
        while (of % found != 0) found--;
        return found;
    }
};

}  // namespace kittens
