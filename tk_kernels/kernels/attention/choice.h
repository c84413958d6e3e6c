// Few queries on many keys: what attention's own kernel would take on a Hopper GPU, and what paged decode's would.
//
// The first one's blocks each go over all keys of a head. The second divides the keys among the blocks. Both models
// count whole steps of keys in all blocks. They are fitted to runs on an H100; an H200's memory is faster, so that the
// second is underrated there where steps are many: at head dim 128 a step takes 1.03 us instead of 1.44.
#pragma once
#include <cstdint>

namespace tk::attention::model {

struct few_queries {
    std::int64_t batch, heads, kv_heads, queries, keys, dim, multiprocessors;
};

// What a launch takes before the first step: of attention's own kernel, and of paged decode's.
constexpr double launch_us = 5.0, decode_launch_us = 14.5;
// A block of attention's own kernel: its rows, and keys of a step.
constexpr int whole_rows = 128, whole_keys = 128;
// A step of that block at head dims 64 and 128. Fitted to the run 20261125T195727Z-437e76: 32:8 heads, 4097 keys, 1 and
// 17 queries, batches of 1 and 16. What it recorded, 50.3 to 206.3 us, is met within 7 %.
constexpr double whole_step_us[] = {1.3, 1.5};
// A step of paged decode in all blocks. Fitted with decode_launch_us to the same run, whose tiles had 64 rows at most.
// The run 20261126T000054Z-23cb53 has tiles of 128; it is met within 10 %, 16.8 to 111.3 us. A step of 128 rows takes
// as long as one of 64, which the memory bounds.
constexpr double decode_step_us[] = {0.78, 1.44};
constexpr int decode_keys = 64;
// Such a step by head dim and rows of a tile, 64 or 128, where a head's rows are several tiles, which read its keys
// side by side: then the multiplies bound it. Fitted to 138 shapes in CUDA graphs; those over 25 us are met within
// 27 %.
constexpr double shared_step_us[][2] = {{0.62, 0.80}, {0.85, 1.05}};
// An element of a tile's rows, where tiles are cut: it is stored as a part of the sum, read and added up.
constexpr double partial_us = 4e-4;

constexpr std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

inline double whole_us(const few_queries& p) {
    const auto waves = divided(p.batch * p.heads * divided(p.queries, whole_rows), p.multiprocessors);
    return launch_us + waves * divided(p.keys, whole_keys) * whole_step_us[p.dim == 128];
}

// rows_per_tile: what a plan for these shapes has.
inline double decode_us(const few_queries& p, std::int64_t rows_per_tile) {
    const std::int64_t rows = p.heads / p.kv_heads * p.queries, row_tiles = divided(rows, rows_per_tile);
    const std::int64_t tiles = p.batch * p.kv_heads * row_tiles;
    const auto steps = divided(tiles * divided(p.keys, decode_keys), p.multiprocessors);
    const bool wide = p.dim == 128;
    const double step = row_tiles == 1 ? decode_step_us[wide] : shared_step_us[wide][rows_per_tile == 128];
    const double cut = 2 * tiles <= p.multiprocessors ? double(rows) / row_tiles * p.dim * partial_us : 0;
    return decode_launch_us + steps * step + cut;
}

}  // namespace tk::attention::model
