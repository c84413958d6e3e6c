// The host side of the bf16 GEMM: the kernels that are built (gemm.cuh, by their configurations), which of them a problem
// gets, and its launch. `clocks` predicts what a kernel would take; of the four choices the quickest runs, unless options
// force another. The grid is as many blocks (clusters) as the GPU holds, each walking over tiles, or with persistent = 0 one
// a tile; tiles are taken in bands so that blocks at work together share operands in L2.
#include <cmath>
#include <stdexcept>
#include <string>

#include "gemm.h"

#include "gemm.cuh"

namespace tk::gemm {
namespace {

struct problem {
    bf16 *out, *a, *b;
    int m, n, k;
    int64_t lda, ldb, ldo;
};

int ceil_div(int x, int y) { return (x - 1) / y + 1; }

// Tile rows of a band in super-grouped order: the patch of C that one wave of blocks covers is then about square.
int band_rows(const config& c) {
    const double side = std::sqrt(double(multiprocessors()) * c.tile_m * c.tile_n) / (c.tile_m * c.cluster_m);
    int band = 1;
    while (2 * band <= side) band *= 2;
    return band;
}

template <config C> void start(const problem& p, const options& o, void* stream) {
    using kernel = kernel<C>;
    using pipeline = lcf<kernel>;
    const bool row_major = o.order == int(tile_order::row_major);
    const tile_bands tiles(ceil_div(p.m, C.tile_m * C.cluster_m), ceil_div(p.n, C.tile_n * C.cluster_n),
                           row_major ? 1 : band_rows(C));
    const typename kernel::globals globals{{p.a, 1, 1, p.m, p.k, p.lda, 0, 0},
                                           {p.b, 1, 1, p.k, p.n, p.ldb, 0, 0},
                                           {p.out, 1, 1, p.m, ceil_div(p.n, 8) * 8, p.ldo, 0, 0},
                                           tiles,
                                           ceil_div(p.k, kernel::tile_k)};
    const int resident = multiprocessors() / kernel::cluster_blocks;
    const int clusters = o.persistent == 0 || tiles.tiles() < resident ? tiles.tiles() : resident;
    kittens::launch<pipeline>({clusters * kernel::cluster_blocks, pipeline::shared_bytes}, stream, globals);
}

struct built {
    config shape;
    void (*start)(const problem&, const options&, void*);
};
template <config C> constexpr built build() { return {C, &start<C>}; }

// The first four are what problems get unless told otherwise; the others answer to forced options (stages 1 to 3 are
// Table 1 of the paper). tile_m, tile_n, stages, cluster_m, cluster_n, ping-pong, Hilbert order.
constexpr int choices = 4;
constexpr built kernels[] = {
    build<config{128, 256, 4, 1, 1, false}>(), build<config{128, 192, 4, 1, 1, true}>(),
    build<config{128, 128, 6, 1, 1, true}>(),  build<config{64, 128, 8, 1, 1, false}>(),
    build<config{128, 256, 3, 1, 1, false}>(), build<config{128, 256, 2, 1, 1, false}>(),
    build<config{128, 256, 1, 1, 1, false}>(), build<config{128, 256, 4, 2, 1, false}>(),
    build<config{128, 256, 4, 1, 2, false}>(), build<config{128, 192, 4, 2, 1, true}>(),
    build<config{128, 128, 6, 2, 1, true}>(),  build<config{256, 128, 4, 2, 1, false}>(),
    build<config{128, 128, 4, 1, 1, true}>(),  build<config{128, 256, 4, 1, 1, false, true}>(),
};

// Clocks that a multiprocessor spends on its share of the tiles, from what was measured (README.md): a step costs the tensor
// cores' tile_m tile_n 64 / 2048, and not less than the time in which its operands arrive, 64 bytes a clock; a cooperative
// tile's result is written while nothing multiplies, a ping-pong tile's under the other's multiplies, if they last that long.
double clocks(const config& c, const problem& p) {
    const double tiles = double(ceil_div(p.m, c.tile_m)) * ceil_div(p.n, c.tile_n);
    const double rounds = std::ceil(tiles / multiprocessors());
    const double multiply = c.tile_m * c.tile_n / 32.0, arrive = (c.tile_m + c.tile_n) * 128 / 64.0 * 1.04;
    const double steps = ceil_div(p.k, 64) * std::fmax(multiply, arrive);
    const double write = c.tile_m * c.tile_n / 16.0;
    return rounds * (c.pingpong ? std::fmax(steps, 1.25 * write) : steps + write);
}

const built& preferred(const problem& p) {
    const built* best = kernels;
    for (int i = 1; i < choices; i++)
        if (clocks(kernels[i].shape, p) < clocks(best->shape, p)) best = kernels + i;
    return *best;
}

bool matches(const config& c, const options& o) {
    auto agrees = [](int wanted, int has) { return wanted <= 0 || wanted == has; };
    return agrees(o.stages, c.stages) && agrees(o.tile_m, c.tile_m) && agrees(o.tile_n, c.tile_n) &&
           agrees(o.cluster_m, c.cluster_m) && agrees(o.cluster_n, c.cluster_n) &&
           agrees(o.schedule, c.pingpong ? 2 : 1) && c.hilbert == (o.order == int(tile_order::hilbert));
}

std::string name(const config& c) {
    auto pair = [](int x, int y) { return std::to_string(x) + "x" + std::to_string(y); };
    return "tile " + pair(c.tile_m, c.tile_n) + " stages " + std::to_string(c.stages) + " cluster " +
           pair(c.cluster_m, c.cluster_n) + (c.pingpong ? " pingpong" : " cooperative") +
           (c.hilbert ? " order hilbert" : "");
}

const built& choose(const problem& p, const options& o) {
    if (matches(preferred(p).shape, o)) return preferred(p);
    for (const built& candidate : kernels)
        if (matches(candidate.shape, o)) return candidate;
    std::string list;
    for (const built& candidate : kernels) list += "\n  " + name(candidate.shape);
    throw std::invalid_argument("gemm: no kernel is built with these options together; there are:" + list);
}

}  // namespace

void launch(void* out, const void* a, const void* b, int64_t M, int64_t N, int64_t K, int64_t lda, int64_t ldb,
            int64_t ldo, const options& o, void* stream) {
    constexpr int64_t most = largest_size;
    if (M > most || N > most || K > most || double(ceil_div(int(M), 64)) * ceil_div(int(N), 64) > most)
        throw std::invalid_argument("gemm: the matrices have too many tiles for 32-bit indices; split them");
    auto data = [](const void* pointer) { return static_cast<bf16*>(const_cast<void*>(pointer)); };
    const problem p{data(out), data(a), data(b), int(M), int(N), int(K), lda, ldb, ldo};
    choose(p, o).start(p, o, stream);
}

}  // namespace tk::gemm
