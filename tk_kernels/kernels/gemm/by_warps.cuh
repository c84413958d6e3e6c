// GEMM for GPUs without a copy engine: four warps that copy and multiply themselves (cp.async, ldmatrix, mma.sync).
//
// A warp has a quarter of the tile, 64 x 64 of 128 x 128: a fragment of A or B that is loaded serves four of the other,
// so that for 32 multiplies 4 KB leave shared memory, two thirds of the tensor cores' time. With 16 rows a warp
// (gemm.cuh) it would be half as much again as that time. Operands arrive 32 deep in a ring of three stages; one
// barrier a step tells that a stage is there and that another is free. A second block on the multiprocessor works where
// one waits.
//
// shared memory  stages x (tile_m + tile_n) x 64 B: 48 KB; the result leaves by strips of 16 x 64 that lie over it
// registers      128 a thread for the sums, of the 255 that two blocks leave
// any M, N, K: tails are zeros on load and are clipped on store
#pragma once

#include "gemm.cuh"

namespace tk::gemm {

template <config C, operation Operation = product> struct by_warps_kernel {
    using operand = typename Operation::operand;
    using result = typename Operation::result;
    static_assert(sizeof(operand) == 2 && !Operation::transposed_b, "by_warps: operands of 16 bits, B row-major");
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 2;
    static constexpr int stages = C.stages, tile_k = 32, rows = C.tile.m / 2, cols = C.tile.n / 2;

    using strip = st<result, 16, cols>;
    struct input {
        st<operand, C.tile.m, tile_k> a;
        st<operand, tile_k, C.tile.n> b;
    };
    union room {  // the ring is empty when a tile's sums are ready
        input stages[C.stages];
        strip strips[warps];
    };
    static constexpr int shared_bytes = int(sizeof(room));
    static_assert(shared_bytes <= limits::shared_bytes_of(blocks_per_sm),
                  "by_warps: two blocks share a multiprocessor");
    struct globals {
        gl<operand, 1, 1, dynamic, dynamic, decltype(input::a)> a;
        gl<operand, 1, 1, dynamic, dynamic, decltype(input::b)> b;
        gl<result, 1, 1, dynamic, dynamic, strip> c;
        tile_bands tiles;
        int steps;
        typename Operation::extra extra;
    };
    using accumulator = rt_fl<rows, cols>;

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        room& shared = *memory.allocate<room>("ring");
        for (int index = block_index(); index < g.tiles.tiles(); index += block_count()) {
            const auto [row, col] = g.tiles.at(index);
            accumulator sums;
            multiply(sums, shared.stages, g, row, col);
            sync_block();  // all warps are done with the ring
            finish(sums, shared.strips[warp_index()], g, row, col);
            sync_block();  // and with the strips
        }
    }

    kittens_device static void multiply(accumulator& sums, input* ring, const globals& g, int row, int col) {
        const auto fill = [&](int step, int stage) {
            if (step < g.steps) {
                group<warps>::copy_async(ring[stage].a, g.a, coord{0, 0, row, step});
                group<warps>::copy_async(ring[stage].b, g.b, coord{0, 0, step, col});
            }
            copy_commit();
        };
        zero(sums);
        for (int step = 0; step < stages - 1; step++) fill(step, step);
        Operation::template prefetch<rows, cols>(g.extra, corner_of(row, col));
        int stage = 0;
        for (int step = 0; step < g.steps; step++) {
            copy_wait<stages - 2>();
            sync_block();  // this stage is there, and all warps are done with the one before it
            fill(step + stages - 1, stage == 0 ? stages - 1 : stage - 1);
            mma_AB(sums, subtile<rows, tile_k>(ring[stage].a, warp_index() / 2, 0),
                   subtile<tile_k, cols>(ring[stage].b, 0, warp_index() % 2));
            stage = stage == stages - 1 ? 0 : stage + 1;
        }
    }

    kittens_device static void finish(accumulator& sums, strip& c, const globals& g, int row, int col) {
        element_coord at = corner_of(row, col);
#pragma unroll
        for (int i = 0; i < rows / 16; i++, at.r += 16) {
            rt_fl<16, cols> slice;
            part(slice, sums, i, 0);
            Operation::template finish<rows * cols / 32>(slice, g.extra, at);
            store_through(g.c, slice, c, at);
        }
        store_read_wait();
    }

    // Of the warp's quarter of a tile.
    kittens_device static element_coord corner_of(int row, int col) {
        return {0, 0, C.tile.m * row + rows * (warp_index() / 2), C.tile.n * col + cols * (warp_index() % 2)};
    }
};

}  // namespace tk::gemm
