// The host side of a GEMM, whatever its operation: the kernels that are built (gemm.cuh, by their configurations),
// which of them a problem gets, and its launch. `clocks` predicts what a kernel would take; of the first `choices` the
// quickest runs that has what the options force. The grid is as many blocks (clusters) as the GPU holds, each walking
// over tiles, or with persistent = 0 one a tile (by_warps the other way about: one a tile unless persistent = 1); tiles
// are taken in bands so that blocks at work together share operands in L2.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "by_warps.cuh"
#include "gemm.cuh"
#include "gemm.h"
#include "swapped.cuh"

namespace tk::gemm {

template <operation Operation> struct problem : matrices {
    typename Operation::extra extra = {};
};

template <operation Operation>
int best_split(const config& c, const problem<Operation>& p, const options& o);
template <operation Operation>
int parts_of(const config& c, const problem<Operation>& p, const options& o, int clusters);

// What a kernel is given: operands and result, what only some kernels know, the steps of K, the operation's own.
template <typename Kernel, operation Operation, typename... Own>
typename Kernel::globals globals_of(const problem<Operation>& p, const Own&... own) {
    const auto operand = [](const void* data) {
        return static_cast<typename Operation::operand*>(const_cast<void*>(data));
    };
    using result = typename Operation::result;
    const int64_t b_rows = Operation::transposed_b ? p.n : p.k, b_cols = Operation::transposed_b ? p.k : p.n;
    constexpr int unit = 16 / sizeof(result);  // what is written at a time
    return {{operand(p.a), 1, 1, p.m, p.k, p.lda, 0, 0},
            {operand(p.b), 1, 1, b_rows, b_cols, p.ldb, 0, 0},
            {static_cast<result*>(p.out), 1, 1, p.m, divide_up(p.n, unit) * unit, p.ldo, 0, 0},
            own...,
            int(divide_up(p.k, Kernel::tile_k)),
            p.extra};
}
template <operation Operation> int64_t steps_of(const problem<Operation>& p) {
    return divide_up(p.k, 128 / int(sizeof(typename Operation::operand)));
}
template <operation Operation> int64_t cluster_tiles(const config& c, const problem<Operation>& p) {
    return divide_up(p.m, c.tile.m * c.cluster.m) * divide_up(p.n, c.tile.n * c.cluster.n);
}
inline int clusters_of(const config& c) { return std::max(1, multiprocessors() / (c.cluster.m * c.cluster.n)); }

// The tiles of the result, of a whole cluster each, in the order that is asked for.
template <operation Operation>
tile_bands tiles_of(const config& c, const problem<Operation>& p, const options& o) {
    const bool row_major = o.order == int(tile_order::row_major);
    return {int(divide_up(p.m, c.tile.m * c.cluster.m)), int(divide_up(p.n, c.tile.n * c.cluster.n)),
            row_major ? 1 : square_band(c.tile.m, c.tile.n, c.cluster.m)};
}

template <config C, operation Operation>
    requires(C.consumers == swapped)
void start(const problem<Operation>& p, const options& o, void* stream) {
    using kernel = swapped_kernel<C, Operation>;
    const int rows = int(divide_up(p.m, C.tile.m)), cols = int(divide_up(p.n, C.tile.n)), split = best_split(C, p, o);
    kittens::launch<kernel>({.blocks = rows * cols * split,
                             .shared_bytes = kernel::shared_bytes,
                             .cluster_blocks = split,
                             .first = !p.behind_copies},
                            stream, globals_of<kernel>(p, divisor(rows), divisor(split)));
}

template <config C, operation Operation>
    requires(C.consumers == by_warps)
void start(const problem<Operation>& p, const options& o, void* stream) {
    using kernel = by_warps_kernel<C, Operation>;
    const tile_bands tiles = tiles_of(C, p, o);
    const int resident = multiprocessors() * kernel::blocks_per_sm;
    const int blocks = o.persistent == 1 && tiles.tiles() > resident ? resident : tiles.tiles();
    kittens::launch<kernel>({blocks, kernel::shared_bytes}, stream, globals_of<kernel>(p, tiles));
}

template <config C, operation Operation>
    requires(!C.divided && (C.consumers == cooperative || C.consumers == pingpong))
void start(const problem<Operation>& p, const options& o, void* stream) {
    using kernel = kernel<C, Operation>;
    using pipeline = lcf<kernel>;
    const tile_bands tiles = tiles_of(C, p, o);
    const int resident = multiprocessors() / kernel::cluster_blocks;
    const int clusters = o.persistent == 0 || tiles.tiles() < resident ? tiles.tiles() : resident;
    kittens::launch<pipeline>({.blocks = clusters * kernel::cluster_blocks,
                               .shared_bytes = pipeline::shared_bytes,
                               .first = !p.behind_copies},
                              stream, globals_of<kernel>(p, tiles));
}

// Tiles of the last round, where so many clusters take them in rounds.
inline int tiles_left(int64_t tiles, int clusters) { return int((tiles - 1) % clusters) + 1; }

// As many clusters as there is work for, all there at once. Their counters are scratch of the call, as the sums are, so
// that calls on two streams cannot meet; they are cleared on its stream.
template <config C, operation Operation>
    requires(C.divided)
void start(const problem<Operation>& p, const options& o, void* stream) {
    using kernel = kernel<C, Operation>;
    using pipeline = lcf<kernel>;
    constexpr int blocks = kernel::cluster_blocks, tile = C.tile.m * C.tile.n;
    const int resident = resident_blocks<pipeline>({.blocks = blocks, .shared_bytes = pipeline::shared_bytes}) / blocks;
    if (resident < 1) throw std::invalid_argument("gemm: this GPU holds no cluster of the kernel that is asked for");
    const tile_bands tiles = tiles_of(C, p, o);
    const int left = tiles_left(tiles.tiles(), resident), parts = parts_of(C, p, o, resident);
    const int steps = int(steps_of(p)), rows = parts > 1 ? left * parts * blocks : 0;
    const int flags = rows / parts * kernel::tile_warps;
    float* const sums = (*p.scratch)(int64_t(rows) * tile + counters::words_for(flags));
    const counters ready(reinterpret_cast<int*>(sums + int64_t(rows) * tile), flags);
    clear_counter_on(stream, ready.words, counters::words_for(flags));
    launch_resident<pipeline>(
        {.blocks = std::min(resident, tiles.tiles() - left + left * parts) * blocks,
         .shared_bytes = pipeline::shared_bytes},
        stream,
        globals_of<kernel>(
            p,
            divided_tiles{tiles, divisor(left), parts, steps / parts, steps % parts, {sums, 1, 1, rows, tile}, ready}));
}

template <operation Operation> struct built {
    config shape;
    void (*start)(const problem<Operation>&, const options&, void*);
};
// Whether the target has a cluster so large, room for two stages of what should have several, and registers for the
// sums of a thread beside 40 others. Where multiplies end when they return nothing takes turns, and 64 columns have at
// least 64 rows, by count.
template <operation Operation> constexpr bool fits(const config& asked, const config& c) {
    if (c.consumers == by_warps) return !limits::multiplies_behind;
    if (!limits::multiplies_behind && (c.consumers == pingpong || (c.tile.n == 64 && c.tile.m < 64))) return false;
    const int rows = c.consumers == cooperative && c.tile.m > 64 ? c.tile.m / 2 : c.tile.m;
    return c.cluster.m * c.cluster.n <= limits::most_cluster_blocks && (c.stages >= 2 || c.stages == asked.stages) &&
           (c.consumers == swapped ||
            rows * c.tile.n / 128 + 40 + limits::spare_registers <= Operation::consumer_registers);
}
// The launch of a configuration's kernel, if it fits.
template <operation Operation, config Shape> constexpr auto start_of() {
    constexpr config c = fitted<Operation>(Shape);
    if constexpr (fits<Operation>(Shape, c)) return &start<c, Operation>;
    else return static_cast<decltype(built<Operation>::start)>(nullptr);
}
template <operation Operation, config... Shapes>
constexpr built<Operation> built_kernels[] = {{fitted<Operation>(Shapes), start_of<Operation, Shapes>()}...};

// Clocks that were fitted, with the other numbers below, to forced kernels on H100s: 288 layers of up to 512 rows, and
// 168 problems that were drawn (README.md). What was fitted is which kernel is the fastest. So none is a reading.
namespace fitted_clocks {
constexpr double way = 3090;             // a load's, from memory where all of it is at work
constexpr double exchange_block = 3260;  // of sums of a swapped tile, for each block of a cluster,
constexpr double own_row = 45;           // or of a block's own, for each row, through shared memory
constexpr double cleared = 16700;        // the counters of a divided kernel, by a launch of its own
constexpr double strip = 840;            // a warp reads one of a part
constexpr double wait = 1500;            // for the other parts
constexpr double doubt = 1.04;           // of a promise by 128x256, all of whose tiles are divided: 1.02 to 1.06 serve
}  // namespace fitted_clocks

// Clocks in which a step's operands arrive. Where rows of B begin inside a 64-byte unit, each of a box's 128-byte rows
// lies in two lines and costs 2.8 times as much, and one of 64 bytes more still. Blocks that share a tile of B share
// the surplus (H200, N = 1000 to 5000). Where rows are along K, the next step begins where this one ends. Those of A in
// bf16 cost nothing more, those of both operands of 8 bits 2.2 times as much. It is 1.35 times for B where blocks share
// rows that begin inside a sector of 32 bytes. By 128x256, in 1x1 and 2x1: 24 and 21 us at 2000^3, 139 and 107 at
// 4016^3, but 16 and 17 at 1504^3 (H100). Boxes of which over a third of A's rows is not there arrive later: by 128x128
// steps take 810 to 850 clocks at M = 576, 814 and 824, and 590 to 690 at 1278, 1388 and 2010 (H100).
template <operation Operation> double arrive_clocks(const config& c, const problem<Operation>& p) {
    const int64_t row_bytes = p.ldb * int(sizeof(typename Operation::operand)), rows = divide_up(p.m, c.tile.m);
    double a_rows = 1, b_rows = 1;
    if (row_bytes % 64 != 0 && Operation::transposed_b) {
        a_rows = 2.2;
        b_rows = c.cluster.m > 1 && row_bytes % 32 != 0 ? 1.35 : 2.2;
    } else if (row_bytes % 64 != 0) {
        b_rows = (1 + 1.8 / c.cluster.m) * (unit_columns(c) < 64 ? 1.6 : 1);
    }
    const double missing = double(rows * c.tile.m - p.m) / c.tile.m;
    a_rows += 0.53 * std::fmin(1, 3 * missing) * std::fmin(1, 8.0 / rows);
    return (a_rows * c.tile.m + b_rows * c.tile.n) * 128 / limits::operand_bytes * 1.056;
}
// Where multiplies end when they return, shared memory bounds them: 16 rows a warp have 237 of 630 TFLOPS at 4096
// (H200). Warps of 64 x 64 should have 0.8, by count; 321 of 575 are measured (H100).
inline double multiply_clocks(const config& c) {
    const double slower = limits::multiplies_behind ? 1 : c.consumers == by_warps ? 1.25 : 2.5;
    return slower * c.tile.m * c.tile.n * 128 / limits::multiply_bytes;
}
// A step's, where so many blocks share a multiprocessor: not less than the way of what a ring holds.
template <operation Operation>
double step_clocks(const config& c, const problem<Operation>& p, double blocks = 1, double arriving = 1) {
    const double work = blocks * std::fmax(multiply_clocks(c), arriving * arrive_clocks(c, p));
    return limits::multiplies_behind ? std::fmax(work, fitted_clocks::way / c.stages) : work;
}
inline double write_clocks(const config& c) { return 2.5 * c.tile.m * c.tile.n / limits::written_sums; }

// The operands' way from memory. Rows of tiles of a swapped product, which are not in step, do not share B. Boxes of
// which rows of A are not there take longer, and so do narrow ones of B: 64 x 6144 x 4096 takes 32.4 us by 64x64, and
// 30.1 by 64x128 (H100).
template <operation Operation> double memory_clocks(const config& c, const problem<Operation>& p) {
    const double again = c.consumers == swapped ? 1.2 * (divide_up(p.m, c.tile.m) - 1) : 0;
    const double missing = std::fmax(0, c.tile.m - std::fmax(16, double(p.m))) / (c.tile.m + c.tile.n);
    const double slower = 1.19 * (1 + 1.57 * missing) * (1 + 0.11 * (64.0 / c.tile.n) * (64.0 / c.tile.n));
    return slower * (p.m + (1 + again) * p.n) * p.k * sizeof(typename Operation::operand) / limits::memory_bytes;
}

// Blocks, in clusters of so many, that are there at once, one a multiprocessor. 38 clusters of 3 are, 24 of 4, 20 of 5
// and 16 of 6; 40, 32, 24 and 18 are not, nor 16 of 7 or 8: those take up to twice as long (H100). So it is as if seven
// groups of multiprocessors had 16 and one had 12.
inline int at_once(int cluster) {
    const int groups = 7 * (16 / cluster) + 12 / cluster;
    return cluster <= 2 ? multiprocessors() : std::max(cluster, multiprocessors() * cluster * groups / 132);
}

// Rounds of so many of all blocks, each of which takes what its work takes or, if that is longer, its share of memory's
// time: a last round of few blocks is no shorter than one of all.
template <typename Work> double round_clocks(int64_t blocks, int64_t in_round, double memory, Work work) {
    const int64_t full = blocks / in_round, rest = blocks % in_round;
    const auto round = [&](int64_t count) { return std::fmax(work(count), memory * count / blocks); };
    return full * round(in_round) + (rest > 0 ? round(rest) : 0);
}

// Clocks of a kernel whose tiles are walked over: a step costs the tensor cores' clocks for 128 bytes of K, and not
// less than the time in which its operands arrive; a cooperative tile's result is written while nothing multiplies, a
// ping-pong tile's under the other's multiplies, if they last that long. An operation's own arithmetic adds to that, by
// the sums of a thread (`finish_clocks`): in ping-pong a quarter of it shows beside the other's multiplies, and half of
// it at the end, where there are none.
// With the last round divided into so many parts: it has fewer steps. In it operands arrive faster. Sums go into memory
// at the rate of operands. The slowest warp reads as many strips of parts as `reads`.
template <operation Operation> double tile_clocks(const config& c, const problem<Operation>& p, int parts = 1) {
    const double write = write_clocks(c), step = step_clocks(c, p), memory = memory_clocks(c, p);
    const int consumers = sharing(c);
    const double finish = Operation::finish_clocks(p.extra, c.tile.m * c.tile.n / (128 * consumers), consumers);
    const double work = steps_of(p) * step;
    const double tile =
        c.consumers == pingpong ? std::fmax(work, write + finish) + 0.25 * finish : work + write + finish;
    const double end = c.consumers == pingpong ? 2.25 * write + 0.5 * finish : 0;
    const double clusters = c.cluster.m * c.cluster.n > 1 ? 1.105 : 1;
    const int64_t tiles = cluster_tiles(c, p), in_round = clusters_of(c);
    if (parts == 1)
        return clusters * (round_clocks(tiles, in_round, memory, [&](int64_t) { return tile; }) + end) +
               (c.divided ? fitted_clocks::cleared : 0);
    const int64_t left = (tiles - 1) % in_round + 1;
    const double last = divide_up(steps_of(p), parts) * step_clocks(c, p, 1, 0.79);
    const double reads = fitted_clocks::strip * double(divide_up(strips_of(c), parts) * parts);
    const double exchange = c.tile.m * c.tile.n * sizeof(float) / limits::operand_bytes + reads + fitted_clocks::wait;
    const double before = (tiles - left) / in_round * std::fmax(tile, memory * in_round / tiles);
    const double doubt = left == tiles && c.tile.n == 256 ? fitted_clocks::doubt : 1;
    return doubt * (clusters * (before + std::fmax(last, memory * left / tiles) + exchange) + fitted_clocks::cleared);
}

// The same of C's transpose with K divided among `split` blocks, of which a multiprocessor has one or two. A block
// has one tile: each round ends with an exchange of its own. 4096 x 4096 x 64 takes 88.5 us so in eight rounds, and
// 17.6 by 128x128 (H100).
template <operation Operation> double swapped_clocks(const config& c, const problem<Operation>& p, int split) {
    const int64_t blocks = divide_up(p.m, c.tile.m) * divide_up(p.n, c.tile.n) * split, there = at_once(split);
    const int together = c.stages * (c.tile.m + c.tile.n) * 128 <= limits::shared_bytes_of(2) - 4096 ? 2 : 1;
    const int64_t in_round = there * std::min<int64_t>(together, divide_up(blocks, there));
    const double rounds = round_clocks(blocks, in_round, memory_clocks(c, p), [&](int64_t count) {
        return divide_up(steps_of(p), split) * step_clocks(c, p, double(divide_up(count, there)));
    });
    const double exchange = split > 1 ? fitted_clocks::exchange_block * split : fitted_clocks::own_row * c.tile.m;
    return rounds + double(divide_up(blocks, in_round)) * (write_clocks(c) + exchange);
}

// The split that a problem gets: the one that is forced, or the least of the quickest of those whose blocks are all
// there at once; not more than K has steps. 96 x 3584 x 18944 takes 90.4 us in 7 parts of 56 tiles, and 67.2 in 2.
template <operation Operation>
int best_split(const config& c, const problem<Operation>& p, const options& o) {
    int most = int(std::min<int64_t>(steps_of(p), limits::most_cluster_blocks));
    if (o.split > 0) return o.split < most ? o.split : most;
    const int64_t tiles = divide_up(p.m, c.tile.m) * divide_up(p.n, c.tile.n);
    while (most > 1 && tiles * most > at_once(most)) most--;
    return cheapest_segments(most, [&](int split) { return swapped_clocks(c, p, split); });
}

// How many parts a tile of the last round is divided into: the count that is forced, else the quickest, of equals the
// least. The clusters are enough for all parts of that round at once, and no part is shorter than four steps.
template <operation Operation>
int parts_of(const config& c, const problem<Operation>& p, const options& o, int clusters) {
    const int64_t each = clusters / tiles_left(cluster_tiles(c, p), clusters), steps = steps_of(p) / 4;
    const int64_t most = std::min<int64_t>({o.split > 0 ? o.split : most_parts, each, steps});
    if (o.split > 0) return int(std::max<int64_t>(1, most));
    return cheapest_segments(most, [&](int parts) { return tile_clocks(c, p, parts); });
}

template <operation Operation> double clocks(const config& c, const problem<Operation>& p, const options& o = {}) {
    if (c.consumers == swapped) return swapped_clocks(c, p, best_split(c, p, o));
    return tile_clocks(c, p, c.divided ? parts_of(c, p, o, clusters_of(c)) : 1);
}

// Whether it divides K as is asked: in all tiles if swapped, in those of the last round if divided.
inline bool splits(const config& c, const options& o) {
    if (c.consumers == swapped) return o.split <= limits::most_cluster_blocks && o.persistent <= 0 && o.order < 0;
    if (c.divided) return o.split != 1 && o.split <= most_parts && o.persistent != 0;
    return o.split <= (c.consumers == by_warps ? 0 : 1);
}

inline bool matches(const config& c, const options& o) {
    auto agrees = [](int wanted, int has) { return wanted <= 0 || wanted == has; };
    return agrees(o.stages, c.stages) && agrees(o.tile_m, c.tile.m) && agrees(o.tile_n, c.tile.n) &&
           agrees(o.cluster_m, c.cluster.m) && agrees(o.cluster_n, c.cluster.n) && agrees(o.schedule, c.consumers) &&
           c.hilbert == (o.order == int(tile_order::hilbert)) && splits(c, o);
}

inline std::string name(const config& c) {
    auto pair = [](int x, int y) { return std::to_string(x) + "x" + std::to_string(y); };
    const char* consumers[] = {"", " cooperative", " pingpong", " swapped", " by_warps"};
    return "tile " + pair(c.tile.m, c.tile.n) + " stages " + std::to_string(c.stages) + " cluster " +
           pair(c.cluster.m, c.cluster.n) + consumers[c.consumers] + (c.hilbert ? " order hilbert" : "") +
           (c.divided ? " divided" : "") + (c.promotion > 0 ? " promotion " + std::to_string(c.promotion) : "");
}

// Of `kernels`, the first `choices` of which are what problems get unless told otherwise: the quickest of those, by
// `clocks`, that has what the options force, the first of equals; else the quickest of the others that has it. Throws
// std::invalid_argument, with the caller's name, for options that no kernel is built for and for sizes that 32 bits do
// not hold.
template <operation Operation, int Count>
const built<Operation>& choose(const built<Operation> (&kernels)[Count], int choices, const problem<Operation>& p,
                               const options& o, const char* caller) {
    require_counts(caller, 2, {p.m, p.n, p.k});
    require_counts(caller, 2, {divide_up(p.m, 64) * divide_up(p.n, 64)});
    const built<Operation>* best = nullptr;
    for (int i = 0; i < Count && !(best && i == choices); i++)
        if (kernels[i].start && matches(kernels[i].shape, o) &&
            (!best || clocks(kernels[i].shape, p, o) < clocks(best->shape, p, o)))
            best = &kernels[i];
    if (best) return *best;
    std::string list;
    for (const auto& candidate : kernels)
        if (candidate.start) list += "\n  " + name(candidate.shape);
    throw std::invalid_argument(caller + std::string(": no kernel is built with these options together; there are:") +
                                list);
}

}  // namespace tk::gemm
