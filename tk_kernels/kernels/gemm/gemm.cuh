// GEMM, C = A B: A (M, K), B (K, N), C (M, N) row-major, sums in fp32. bf16, unless the operation says otherwise.
//
// A block computes tiles of C in the load-compute-finish template. The producer loads, for 128 bytes of K at a time, a
// tile of A (tile_m x 64) and one of B (64 x tile_n) by TMA into a ring of `stages`; consumer warpgroups multiply them
// from shared memory (wgmma). Cooperative: the consumers share a tile, each tile_m / 2 of its rows. Ping-pong: each has
// a tile of its own, and one's epilogue runs under the other's multiplies. In a cluster of cluster_m x cluster_n
// blocks, blocks of one tile row share A and blocks of one tile column share B: each loads a part and multicasts it.
// The result leaves in strips of 16 x 64, or of 16 x 32 where 64 does not divide tile_n, which each warp stores by TMA
// from two of its own in turn; they are still in flight when the next tile begins.
//
// Divided: the tiles of the last round are divided along K among all clusters, some of which would be idle. Each leaves
// its sums in memory. Once all parts of a tile are there, each adds up some of its strips, in the order of the parts.
//
// speed          96 % of the measured matmul roof at 4096^3, 92 % at 8192^3, 88 % at 16384^3 (H200)
// shared memory  stages x (tile_m + tile_n) x 128 B for the ring, and 8 strips of 2 KB a consumer: 192 + 32 KB at
//                128x256 and 4 stages
// registers      of a consumer's 232 a thread the accumulator takes rows x tile_n / 128, its rows being tile_m / 2
//                (cooperative) or tile_m (ping-pong): 128 at 128x256 cooperative, 192 at 128x192 ping-pong
// any M, N, K: tails are zeros on load and are clipped on store (rows of C to whole 16 bytes)
#pragma once

#include <concepts>

#include "kittens.cuh"

namespace tk::gemm {

using namespace kittens;

// How a block's consumers share the work: on one tile together, each on a tile of its own in turn, or, for few rows,
// together on a tile of C's transpose whose K the blocks of a cluster divide (swapped.cuh); or, where there is no copy
// engine, as warps that copy for themselves (by_warps.cuh).
enum schedule { cooperative = 1, pingpong, swapped, by_warps };
// In turn, where multiplies go on behind an epilogue; where they have ended when they return, all warps must multiply.
constexpr schedule in_turn = limits::multiplies_behind ? pingpong : cooperative;

struct extent {
    int m, n;
};
struct config {
    extent tile;
    int stages;
    extent cluster = {1, 1};  // in blocks
    schedule consumers = cooperative;
    bool hilbert = false;  // the order of the tiles: along a Hilbert curve, or in bands (a band of one is row-major)
    // Steps after which sums move on from the tensor cores' registers to others; 0: not before the end.
    int promotion = 0;
    bool divided = false;  // whether the tiles of the last round are divided along K
};

// An operation, and the defaults of others, which derive from it: the plain product.
struct product {
    using operand = bf16;
    using result = bf16;
    static constexpr bool transposed_b = false;  // B comes as its transpose, (N, K) row-major
    static constexpr int consumer_registers = limits::consumer_registers(40);  // a producer's thread keeps 40
    struct extra {};                                                           // what the functions need to know
    // What `finish` will read, asked for when the operands of a tile of Rows x Cols are first loaded.
    template <int Rows, int Cols, typename Extra> kittens_device static void prefetch(const Extra&, element_coord) {}
    // What becomes of the sums before they are rounded: 16 rows and some columns of the result, from an element on. A
    // thread holds so many sums in all.
    template <int Sums, int Cols, typename Extra>
    kittens_device static void finish(rt_fl<16, Cols>&, const Extra&, element_coord) {}
    // Clocks of that for the sums of a thread, where so many consumers share a tile (choice.cuh).
    template <typename Extra> static double finish_clocks(const Extra&, int /*sums*/, int /*consumers*/) { return 0; }
};

template <typename O>
concept operation = requires(rt_fl<16, 64>& sums, const typename O::extra& extra, element_coord at) {
    requires sizeof(typename O::operand) <= 2 && sizeof(typename O::result) <= 2;
    requires O::transposed_b || sizeof(typename O::operand) == 2;
    requires O::consumer_registers >= limits::least_registers;
    O::template prefetch<64, 64>(extra, at);
    O::template finish<64>(sums, extra, at);
    { O::finish_clocks(extra, 64, 1) } -> std::same_as<double>;
};

// Columns of B, and of the result, that are loaded and stored at a time.
constexpr int unit_columns(const config& c) { return c.tile.n % 64 == 0 ? 64 : 32; }
// Consumers that share a tile, and the strips that each of their warps has of it.
constexpr int sharing(const config& c) { return c.consumers == pingpong || c.tile.m == 64 ? 1 : 2; }
constexpr int strips_of(const config& c) { return c.tile.m / sharing(c) / 64 * (c.tile.n / unit_columns(c)); }

// With as many of its stages as a block has shared memory for.
template <operation Operation> constexpr config fitted(config c) {
    if (c.consumers == by_warps) return c;
    if (c.consumers == swapped) {
        const int unit_bytes = 2 * 16 * 32, units = c.tile.n / 64 * warpgroup_warps;
        c.stages = limits::stages(c.stages, (c.tile.m + c.tile.n) * 128, units * unit_bytes);
        return c;
    }
    const int strips = 2 * warpgroup_warps * (c.tile.m == 64 && c.consumers != pingpong ? 1 : 2);
    c.stages = limits::stages(
        c.stages, (c.tile.m + c.tile.n) * 128,
        strips * 16 * unit_columns(c) * int(sizeof(typename Operation::result)) + 2 * int(sizeof(semaphore)));
    return c;
}

constexpr int most_parts = 8;      // of a divided tile
constexpr int parts_together = 4;  // whose sums of one strip are in a thread's registers at a time

// The tiles of a kernel that divides the last of its rounds. All but the last `rest` of them fill whole rounds; each of
// those is divided along K into `parts`: so many steps each, and one more for the first `longer` of them.
struct divided_tiles : tile_bands {
    divisor rest;
    int parts, steps, longer;
    exchanged<gl<float, 1, 1, dynamic, dynamic>> sums;  // a row for each block of a part: strips, in the order of warps
    counters ready;                                     // one for each warp of a divided tile
};

template <config C, operation Operation = product> struct kernel {
    using operand = typename Operation::operand;
    using result = typename Operation::result;
    static constexpr int stages = C.stages, cluster_blocks = C.cluster.m * C.cluster.n;
    static constexpr bool pingpong = C.consumers == schedule::pingpong;
    static constexpr int promotion = C.promotion;
    // Behind the copies of its operands, where there are some; blocks that wait for one another must all be there.
    static constexpr bool starts_early = !C.divided;
    static constexpr int consumers = C.tile.m == 64 && !pingpong ? 1 : 2;
    static constexpr int consumer_registers = Operation::consumer_registers;
    static constexpr int tile_k = 128 / sizeof(operand);
    static constexpr bool transposed_b = Operation::transposed_b;
    static constexpr int rows = pingpong ? C.tile.m : C.tile.m / consumers;  // of a consumer's accumulator

    static constexpr int unit = unit_columns(C), units = C.tile.n / unit;
    // What one TMA instruction moves, and what a warp stores at a time.
    using piece = st<operand, 64, tile_k>;
    using piece_b = std::conditional_t<transposed_b, st<operand, unit, tile_k>, st<operand, tile_k, unit>>;
    using strip = st<result, 16, unit>;
    struct globals {
        gl<operand, 1, 1, dynamic, dynamic, piece> a;
        gl<operand, 1, 1, dynamic, dynamic, piece_b> b;
        gl<result, 1, 1, dynamic, dynamic, strip> c;
        std::conditional_t<C.divided, divided_tiles, tile_bands> tiles;  // of a cluster
        int steps;
        typename Operation::extra extra;
    };
    struct input {
        st<operand, C.tile.m, tile_k> a;
        std::conditional_t<transposed_b, st<operand, C.tile.n, tile_k>, st<operand, tile_k, C.tile.n>> b;
    };
    struct output {
        strip c[warpgroup_warps][2];  // a warp's own, in turn
    };
    struct whole_task {
        int m, n, steps;  // tile of C, in units of 64 rows and of `unit` columns
        static constexpr int first = 0;
    };
    struct part_task {
        int m, n, steps, first;  // of K's steps so many, from the first on
        int share;               // of the last round, all tiles' first parts first; negative before that
    };
    using task = std::conditional_t<C.divided, part_task, whole_task>;
    static constexpr int strips = strips_of(C);
    static constexpr int tile_warps = warpgroup_warps * (pingpong ? 1 : consumers);
    using accumulator = rt_fl<rows / 4, C.tile.n>;

    kittens_device static void prefetch(const globals& g) { prefetch_maps(g.a, g.b, g.c); }

    kittens_device static bool get_task(task& t, const globals& g, int i) {
        int index = (block_index() + i * block_count()) / cluster_blocks;
        if constexpr (C.divided) {
            if (!take_part(t, index, g)) return false;
        } else if (index >= g.tiles.tiles()) {
            return false;
        }
        const auto [row, col] = C.hilbert ? hilbert(index, g.tiles.rows, g.tiles.cols) : g.tiles.at(index);
        t.m = (row * C.cluster.m + cluster_rank() / C.cluster.n) * (C.tile.m / 64);
        t.n = (col * C.cluster.n + cluster_rank() % C.cluster.n) * units;
        if constexpr (!C.divided) t.steps = g.steps;
        return true;
    }

    // What the index-th cluster has of K; the index becomes that of its tile. Parts of the same steps are dealt one
    // after another: as in whole rounds, clusters side by side read the same operands.
    kittens_device static bool take_part(task& t, int& index, const globals& g) {
        const int whole = g.tiles.tiles() - g.tiles.rest.value;
        t.share = index - whole, t.first = 0, t.steps = g.steps;
        if (t.share < 0) return true;
        int tile;
        const int part = g.tiles.rest.divide(t.share, tile);
        index = whole + tile;
        t.first = part * g.tiles.steps + (part < g.tiles.longer ? part : g.tiles.longer);
        t.steps = g.tiles.steps + (part < g.tiles.longer);
        return part < g.tiles.parts;
    }

    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        if (step == 0) wait_previous_kernel();
        const int row = cluster_rank() / C.cluster.n, col = cluster_rank() % C.cluster.n, k = t.first + step;
        // Blocks of this cluster row need the same A, blocks of this column the same B; one block needs no multicast.
        const int same_a = C.cluster.n == 1 ? 0 : ((1 << C.cluster.n) - 1) << row * C.cluster.n;
        const int same_b = C.cluster.m == 1 ? 0 : column_mask() << col;
        for (int i = col; i < C.tile.m / 64; i += C.cluster.n)
            load_async(subtile<64, tile_k>(in.a, i, 0), g.a, coord{0, 0, t.m + i, k}, full, same_a);
        for (int j = row; j < units; j += C.cluster.m)
            if constexpr (transposed_b)
                load_async(subtile<unit, tile_k>(in.b, j, 0), g.b, coord{0, 0, t.n + j, k}, full, same_b);
            else load_async(subtile<tile_k, unit>(in.b, 0, j), g.b, coord{0, 0, k, t.n + j}, full, same_b);
        if (step == 0)
            Operation::template prefetch<C.tile.m, C.tile.n>(g.extra, element_coord{0, 0, 64 * t.m, unit * t.n});
    }

    kittens_device static void compute(accumulator& acc, input& in, const task&, int step) {
        auto& a = subtile<rows, tile_k>(in.a, pingpong ? 0 : warpgroup_index(), 0);
        const int accumulate = promotion > 0 ? step % promotion > 0 : step > 0;
        if constexpr (transposed_b) warpgroup::mma_ABt(acc, a, in.b, accumulate);
        else warpgroup::mma_AB(acc, a, in.b, accumulate);
    }

    // Of C, in units of 16 rows, the first that a warp has sums of.
    kittens_device static int first_row(const task& t) {
        return 4 * (t.m + (pingpong ? 0 : warpgroup_index() * (rows / 64))) + warp_in_group();
    }

    // A warp stores its own rows, so that no warp waits for another.
    kittens_device static void finish(accumulator& acc, output& out, const task& t, const globals& g) {
        const int row = first_row(t);
#pragma unroll
        for (int i = 0; i < rows / 64; i++)
#pragma unroll
            for (int j = 0; j < units; j++) {
                strip& c = out.c[warp_in_group()][(i * units + j) % 2];
                rt_fl<16, unit> slice;
                part(slice, acc, i, j);
                Operation::template finish<rows * C.tile.n / 128>(
                    slice, g.extra, element_coord{0, 0, 16 * (row + 4 * i), unit * (t.n + j)});
                // The store before the last one has left this strip; the last tile's too, where that ended in the same
                // one.
                if (strips % 2 == 1 && i + j == 0) store_read_wait<0>();
                else store_read_wait<1>();
                store(c, slice);
                fence_async();
                store_async(g.c, c, coord{0, 0, row + 4 * i, t.n + j});
            }
    }

    // Whether it is a part of a tile. No cluster has a task after that.
    kittens_device static bool is_last(const task& t, const globals& g)
        requires(C.divided)
    {
        return t.steps < g.steps;
    }
    // A warp leaves its sums, and awaits those of the same warp of the other parts. Then each of these warps adds up
    // some of their strips. The order is that of the parts, not of their arrival: the same bits every time.
    template <typename Over>
    kittens_device static void finish_last(const accumulator& acc, output& out, const task& t, const globals& g,
                                           Over over) {
        const divided_tiles& tiles = g.tiles;
        int tile;
        const int number = tiles.rest.divide(t.share, tile);  // of the part
        const int block = tile * cluster_blocks + cluster_rank(), blocks = tiles.rest.value * cluster_blocks;
        const int warp = pingpong ? warp_in_group() : warp_index();
        const counter ready = tiles.ready[block * tile_warps + warp];
        rt_fl<16, unit> sum;
#pragma unroll
        for (int i = 0; i < strips; i++) {
            part(sum, acc, i / units, i % units);
            store_packed(tiles.sums, sum, coord{0, 0, number * blocks + block, warp * strips + i});
        }
        signal(ready);
        await(ready, tiles.parts);
        over();
#pragma unroll 1
        for (int i = number; i < strips; i += tiles.parts) {
            zero(sum);
#pragma unroll 1
            for (int from = 0; from < tiles.parts; from += parts_together) {
                rt_fl<16, unit> of[parts_together];
#pragma unroll
                for (int j = 0; j < parts_together; j++)
                    if (from + j < tiles.parts)
                        load_packed(of[j], tiles.sums, coord{0, 0, (from + j) * blocks + block, warp * strips + i});
#pragma unroll
                for (int j = 0; j < parts_together; j++)
                    if (from + j < tiles.parts) add(sum, sum, of[j]);
            }
            const int row = first_row(t) + 4 * (i / units), col = t.n + i % units;
            const element_coord at{0, 0, 16 * row, unit * col};
            Operation::template finish<rows * C.tile.n / 128>(sum, g.extra, at);
            store_through(g.c, sum, out.c[warp_in_group()][0], coord{0, 0, row, col});
        }
    }

    kittens_device static void retire(const globals& g)
        requires(C.divided)
    {
        kittens::retire(g.tiles.ready);
    }

    // Bits of the first cluster column's blocks.
    kittens_device static constexpr int column_mask() {
        int mask = 0;
        for (int i = 0; i < C.cluster.m; i++) mask |= 1 << i * C.cluster.n;
        return mask;
    }
};

}  // namespace tk::gemm
