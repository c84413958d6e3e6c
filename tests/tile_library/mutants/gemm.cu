// GEMM in its pipeline template. SCHEDULE 0: two consumers share a tile; 1: they alternate; 2: a cluster of two blocks
// along M, one consumer each; 3: sums are promoted every second step; 4: C's transpose, K divided among two blocks; 5:
// warps that copy for themselves, as GPUs without a copy engine have it. In 6 to 8 the tiles of the last round are
// divided: consumers share a tile, alternate, or are in a cluster. In 9 they alternate, and a tile has more parts than
// are added up at a time. A is a copy, made by the kernel before: those that start early wait for it.
#include <limits>

#include "gemm/choice.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::gemm;

constexpr int schedules = 10;
constexpr config shapes[schedules] = {{.tile{128, 128}, .stages = 2},
                                      {.tile{64, 128}, .stages = 2, .consumers = tk::gemm::pingpong},
                                      {.tile{64, 128}, .stages = 2, .cluster{2, 1}},
                                      {.tile{128, 128}, .stages = 2, .promotion = 2},
                                      {.tile{32, 128}, .stages = 2, .consumers = swapped},
                                      {.tile{128, 128}, .stages = 3, .consumers = by_warps},
                                      {.tile{128, 128}, .stages = 2, .divided = true},
                                      {.tile{64, 128}, .stages = 2, .consumers = tk::gemm::pingpong, .divided = true},
                                      {.tile{64, 128}, .stages = 2, .cluster{2, 1}, .divided = true},
                                      {.tile{64, 128}, .stages = 2, .consumers = tk::gemm::pingpong, .divided = true}};
constexpr config shape = shapes[SCHEDULE];
constexpr int split = 2;
// Of the tiles that are divided one is left for the last round; all blocks, or clusters, have a part of it.
constexpr int blocks = SCHEDULE == 9 ? 6 : 4, parts = blocks / shape.cluster.m;
constexpr int M = shape.divided ? shape.tile.m * (blocks + shape.cluster.m) - 8 : 376;
constexpr int N = shape.divided ? 120 : 248, K = shape.divided ? 64 * (4 * parts + 2) + 24 : 312;

mutants::given<bf16> original(M* K), b(K* N);
mutants::scratch<bf16> a(M* K);
mutants::result<bf16> out(M* N);

struct copy_kernel {
    static constexpr int warps = 1, cluster_blocks = 1, blocks_per_sm = 1, columns = 64;
    using matrix = gl<bf16, 1, 1, dynamic, dynamic>;
    struct globals {
        matrix from, to;
    };
    kittens_device static void run(const globals& g) {
        rt_bf<16, columns> part;
        for (int row = 0; row < M; row += 16)
            for (int col = 0; col < K; col += columns) {
                load(part, g.from, element_coord{0, 0, row, col});
                store(g.to, part, element_coord{0, 0, row, col});
            }
    }
};

template <config C> void multiply() {
    const int rows = C.tile.m * C.cluster.m, tiles_m = (M + rows - 1) / rows, tiles_n = (N + C.tile.n - 1) / C.tile.n;
    if constexpr (C.divided) {
        std::vector<float> memory;  // what a call before this one has left
        const allocation allocate = [&](int64_t numbers) {
            memory.assign(size_t(numbers), std::numeric_limits<float>::quiet_NaN());
            return memory.data();
        };
        start<C, product>({{out.data(), a.data(), b.data(), M, N, K, K, N, N, true, &allocate}}, {.split = parts},
                          nullptr);
    } else if constexpr (C.consumers == swapped) {
        using kernel = swapped_kernel<C>;
        constexpr int steps = (K + kernel::tile_k - 1) / kernel::tile_k;
        const typename kernel::globals g{{a.data(), 1, 1, M, K}, {b.data(), 1, 1, K, N}, {out.data(), 1, 1, M, N},
                                         divisor(tiles_m),       divisor(split),         steps};
        launch<kernel>(
            {.blocks = tiles_m * tiles_n * split, .shared_bytes = kernel::shared_bytes, .cluster_blocks = split},
            nullptr, g);
    } else {
        using kernel = std::conditional_t<C.consumers == by_warps, by_warps_kernel<C>, kernel<C>>;
        constexpr int steps = (K + kernel::tile_k - 1) / kernel::tile_k;
        const typename kernel::globals g{
            {a.data(), 1, 1, M, K}, {b.data(), 1, 1, K, N}, {out.data(), 1, 1, M, N}, {tiles_m, tiles_n, 8}, steps};
        if constexpr (C.consumers == by_warps) {
            launch<kernel>({2, kernel::shared_bytes}, nullptr, g);
        } else {
            using pipeline = lcf<kernel>;
            launch<pipeline>({2 * kernel::cluster_blocks, pipeline::shared_bytes}, nullptr, g);
        }
    }
}

static void run() {
    cpu::forced_options->multiprocessors = blocks;
    launch<copy_kernel>({1, 0}, nullptr, {{original.data(), 1, 1, M, K}, {a.data(), 1, 1, M, K}});
    multiply<shape>();
}
