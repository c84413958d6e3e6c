// What kernels are put together from, beside the operations on tiles: work orders, the mask and the softmax of
// attention, sums that many blocks add to, stores by way of shared memory.
#include "guarded.h"
#include "attention/packed_sums.cuh"

#include "tk/tensor.h"

using namespace kittens;

namespace {

using matrix = gl<float, 1, 1, dynamic, dynamic>;

// Hides a tile of ones: 16 queries from `row` on, 64 keys from `key` on; or its transpose, as a part of 128 keys.
struct hiding {
    static constexpr int warps = 1, cluster_blocks = 1, blocks_per_sm = 1;
    struct globals {
        matrix out;
        visible_keys visible;
        int row, key, first;
        bool transposed;
    };

    kittens_device static void run(const globals& g) {
        if (g.transposed) {
            rt_fl<64, 16> scores;
            one(scores);
            g.visible.hide_transposed<128>(scores, g.row, g.first, g.key, -1.f);
            store(g.out, scores, coord{});
        } else {
            rt_fl<16, 64> scores;
            one(scores);
            g.visible.hide(scores, g.row, g.key, -1.f);
            store(g.out, scores, coord{});
        }
    }
};

// out = the sum of the softmax over tile after tile of 64 columns, sums = the logarithm of each row's sum.
struct softmaxes {
    static constexpr int warps = 1, cluster_blocks = 1, blocks_per_sm = 1;
    struct globals {
        matrix in, out, sums;
        float scale;
    };

    kittens_device static void run(const globals& g) {
        rt_fl<16, 64> scores, total;
        online_softmax state;
        decltype(state)::rows_vec shrink, factor, sums;
        zero(total);
        for (int tile = 0; tile < g.in.cols() / 64; tile++) {
            load(scores, g.in, coord{0, 0, 0, tile});
            if (state.step(scores, shrink, g.scale)) mul_row(total, total, shrink);
            add(total, total, scores);
        }
        state.finish(factor, sums);
        mul_row(total, total, factor);
        store(g.out, total, coord{});
        store(g.sums, sums, element_coord{});
    }
};

constexpr int cols = 128;
constexpr int block_rows = 64;

struct clearing {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1, shared_bytes = 0;
    struct globals {
        packed_sums<cols> sums;
        row_grid grid;
    };

    kittens_device static void run(const globals& g) {
        const auto [batch, head, block] = g.grid.at(block_index());
        clear_strip<cols>(g.sums, coord{batch, head, 4 * block + warp_in_group(), 0});
    }
};

// Each block adds the rows that it reads, from registers or by way of shared memory; `times` blocks read the same.
struct adding {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1;
    using strip = per_warp<sv_fl<sum_tile::rows * sum_tile::cols>>;
    static constexpr int shared_bytes = sizeof(strip);
    struct globals {
        gl<float, dynamic, dynamic, dynamic, dynamic> in;
        packed_sums<cols> sums;
        row_grid grid;
        int blocks;  // that read something else
        bool from_registers;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto& out = memory.allocate<strip>("out")->own();
        const auto [batch, head, block] = g.grid.at(block_index() % g.blocks);
        const int at = 4 * block + warp_in_group();
        for (int c = 0; c < cols / sum_tile::cols; c++) {
            sum_tile x;
            load(x, g.in, coord{batch, head, at, c});
            if (g.from_registers) add_packed(g.sums, x, coord{batch, head, at, c});
            else {
                store_read_wait();
                store_packed(out, x);
                fence_async();
                store_add_async(g.sums, out, coord{batch, head, at, c});
            }
        }
        store_read_wait();
    }
};

// out = 2 in, each warp's strips of 16 x 64 by way of two tiles of its own in turn.
struct doubling {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1;
    using strip = st_fl<16, 64>;
    struct own {
        strip tile[2];
    };
    static constexpr int shared_bytes = sizeof(per_warp<own>);
    struct globals {
        matrix in;
        gl<float, 1, 1, dynamic, dynamic, strip> out;
        bool too_early;  // waits for one store less than it must
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        own& mine = memory.allocate<per_warp<own>>("mine")->own();
        for (int c = 0; c < (g.in.cols() + 63) / 64; c++) {
            const coord at{0, 0, 4 * block_index() + warp_in_group(), c};
            rt_fl<16, 64> x;
            load(x, g.in, at);
            mul(x, x, 2.f);
            if (g.too_early) store_through<2>(g.out, x, mine.tile[c % 2], at);
            else store_through<1>(g.out, x, mine.tile[c % 2], at);
        }
        store_read_wait();
    }
};

// out = {first, steps} of each block's share.
struct sharing {
    static constexpr int warps = 1, cluster_blocks = 1, blocks_per_sm = 1, shared_bytes = 0;
    struct globals {
        matrix out;
        int steps;
    };

    kittens_device static void run(const globals& g) {
        const auto [first, steps] = share_of_block(g.steps);
        rt_fl<16, 16> x;
        fill(x, float(first));
        left_fill(x, x, 1, float(steps));
        store(g.out, x, element_coord{0, 0, 16 * block_index(), 0});
    }
};

// Columns `first` to `first + count` of a row of a matrix, copied by one warp; count 0: to the last column.
struct columns {
    static constexpr int warps = 1, cluster_blocks = 1, blocks_per_sm = 1, shared_bytes = 0;
    struct globals {
        matrix in, out;
        int first, count;
    };

    kittens_device static void run(const globals& g) {
        rt_fl<16, 64> x;
        const matrix part = g.count > 0 ? columns_from(g.in, g.first, g.count) : columns_from(g.in, g.first);
        load(x, part, coord{});
        store(g.out, x, coord{});
    }
};

// out = sub-tile (1, 1), two chunks wide, of a tile of four.
struct cutting {
    static constexpr int warps = 1, cluster_blocks = 1, blocks_per_sm = 1;
    using tile = st_fl<32, 128>;
    static constexpr int shared_bytes = sizeof(tile);
    struct globals {
        matrix in, out;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile& whole = *memory.allocate<tile>("whole");
        rt_fl<32, 128> x;
        rt_fl<16, 64> part;
        load(x, g.in, coord{});
        store(whole, x);
        sync_warp();
        load(part, subtile<16, 64>(whole, 1, 1));
        store(g.out, part, coord{});
    }
};

float* data_of(void* data) { return static_cast<float*>(data); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int run_hiding(void* out, int keys, int offset, int causal, int row, int key, int first, int transposed,
                      char* message, int size) {
    return guarded(
        [&] {
            const int rows = transposed ? 64 : 16;
            launch<hiding>({1, 0}, nullptr,
                           {matrix(data_of(out), 1, 1, rows, 80 - rows),
                            {keys, offset, causal != 0},
                            row,
                            key,
                            first,
                            transposed != 0});
        },
        message, size);
}

EXPORT int run_softmaxes(void* in, void* out, void* sums, int width, float scale, char* message, int size) {
    return guarded(
        [&] {
            launch<softmaxes>({1, 0}, nullptr,
                              {matrix(data_of(in), 1, 1, 16, width), matrix(data_of(out), 1, 1, 16, 64),
                               matrix(data_of(sums), 1, 1, 1, 16), scale});
        },
        message, size);
}

// rounded (batch, heads, rows, 128) = scale times `times` the same, in; sums: fp32, for rows padded to 64.
EXPORT int run_sums(void* in, void* sums, void* rounded, int batch, int heads, int rows, int times, float scale,
                    int from_registers, char* message, int size) {
    return guarded(
        [&] {
            const row_grid grid(heads, rows, block_rows);
            const int blocks = int(grid.tasks(batch)), strips = grid.row_blocks.value * block_rows / 16;
            const packed_sums<cols> totals(data_of(sums), batch, heads, strips, 16 * cols);
            launch_all<clearing>(blocks, nullptr, {totals, grid});
            launch_all<adding>(times * blocks, nullptr,
                               {{data_of(in), batch, heads, rows, cols}, totals, grid, blocks, from_registers != 0});
            const int64_t head = int64_t(rows) * cols;
            round_sums<cols>(totals, tk::tensor{rounded, heads * head, head, cols}, rows, scale, nullptr);
        },
        message, size);
}

EXPORT int run_doubling(void* in, void* out, int rows, int width, int too_early, char* message, int size) {
    return guarded(
        [&] {
            launch_all<doubling>(
                (rows + 63) / 64, nullptr,
                {matrix(data_of(in), 1, 1, rows, width), {data_of(out), 1, 1, rows, width}, too_early != 0});
        },
        message, size);
}

EXPORT int run_sharing(void* out, int steps, int blocks, char* message, int size) {
    return guarded([&] { launch_all<sharing>(blocks, nullptr, {matrix(data_of(out), 1, 1, 16 * blocks, 2), steps}); },
                   message, size);
}

// Place `index` of heads in bands, as head * row_blocks + block of rows.
EXPORT int place_in_bands(int heads, int row_blocks, int band, int index) {
    const auto at = row_bands(heads, row_blocks, band).at(index);
    return at.head * row_blocks + at.row_block;
}

// Place `index` of a grid over heads of `rows` rows in blocks of 64, as (batch * heads + head) * 1000 + block.
EXPORT int place_of(int heads, int rows, int index) {
    const auto [batch, head, block] = row_grid(heads, rows, block_rows).at(index);
    return (batch * heads + head) * 1000 + block;
}

EXPORT int run_cutting(void* in, void* out, char* message, int size) {
    return guarded(
        [&] {
            launch_all<cutting>(1, nullptr, {matrix(data_of(in), 1, 1, 32, 128), matrix(data_of(out), 1, 1, 16, 64)});
        },
        message, size);
}

EXPORT int run_columns(void* in, void* out, int first, int count, char* message, int size) {
    return guarded(
        [&] {
            const matrix all(data_of(in), 1, 1, 16, 200);
            launch_all<columns>(1, nullptr, {all, matrix(data_of(out), 1, 1, 16, 64), first, count});
        },
        message, size);
}

EXPORT int band_of(int tile_rows, int tile_cols, int cluster_rows) {
    return square_band(tile_rows, tile_cols, cluster_rows);
}

EXPORT int divided(int x, int by) {
    int rest;
    const int quotient = divisor(by).divide(x, rest);
    return quotient == x / by && rest == x % by;
}

EXPORT int keys_before(int keys, int offset, int causal, int end, int tile) {
    const visible_keys visible{keys, offset, causal != 0};
    return visible.tiles_before(end, tile) * 100000 + visible.before(end);
}
