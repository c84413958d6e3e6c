// The host interface of decode plans: what binding.cc may call. Host code alone, no kernel: planning runs on the CPU.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "layout.h"

namespace tk::decode_plan {

// What a plan is for, and the sizes of its buffer: a part of the buffer's header, as it lies there.
struct shape {
    int blocks, capacity, counters, slots;
    int rows_per_tile, key_step;
    int batch, kv_heads, row_tiles, new_tokens, heads;

    int rows() const { return heads / kv_heads * new_tokens; }
    int tiles() const { return batch * kv_heads * row_tiles; }
    // Rows of a tile that exist.
    int rows_of(int row_tile) const {
        const int left = rows() - row_tile * rows_per_tile;
        return left < rows_per_tile ? left : rows_per_tile;
    }
    std::int64_t ints() const { return header_ints + std::int64_t(blocks) * capacity * instruction_ints; }
};

// Rows of the largest tile of the kernel for grouped heads that the target has.
int gqa_most_tile_rows();

// Instructions a block that every batch of so many tiles fits in, whatever its lengths: its pieces are at most the
// tiles and the blocks, its reductions at most the blocks. Twice as many pieces and four reductions a block leave the
// schedules a choice.
inline int usual_capacity(int tiles, int blocks) { return 2 * ((tiles + blocks - 1) / blocks) + 6; }

// Times in microseconds of one block.
struct costs {
    double attend_start;  // of an attend, before its keys stream
    double key_step;      // of key_step keys
    double partial_row;   // to store a row of a partial
    double output_row;    // to write a row of the output
    double reduce_start;  // of a reduction
    double reduce_row;    // to read a row of one partial
    double hand_over;     // from a signal to whoever awaits it
    // What a partition counts that gives the row tiles of a head to one block after another, over one that begins them
    // together, so that they read the head's keys from memory once.
    double apart;

    // Of an attend, which stores a partial of its rows, or writes the output where it has the whole tile.
    double attend(int steps, int rows, bool whole) const {
        return attend_start + steps * key_step + rows * (whole ? output_row : partial_row);
    }
    // Of a reduction, once its partials are there.
    double reduce(int partials, int rows) const { return reduce_start + partials * rows * reduce_row; }
};

enum class schedule { static_pieces, makespan, last };

// Writes a plan for these lengths into a buffer whose header says its sizes, up to `heads`: as many counters as blocks,
// since no schedule cuts more than one tile a block, and twice as many slots, since none stores more than two partials
// a block. Returns the time that the costs predict for it. Throws std::invalid_argument where they do not fit.
double make(schedule, const costs&, std::span<const std::int32_t> lengths, std::span<std::int32_t> buffer);

// Sizes in the header of a buffer; throws std::invalid_argument where they are no plan's of so many ints.
shape shape_of(std::span<const std::int32_t> buffer);

// Returns what is wrong with it for these lengths, in a sentence, or nothing. A plan that
// passes covers every key of every tile once and every row of every output once, signals and awaits consistently, and
// ends whatever the blocks' speeds.
std::string verify(std::span<const std::int32_t> buffer, std::span<const std::int32_t> lengths);

// FNV-1a of the lengths, by which a plan is told from one for others.
std::uint64_t digest(std::span<const std::int32_t> lengths);

}  // namespace tk::decode_plan
