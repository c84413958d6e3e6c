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

}  // namespace kittens
