// The host side of a GEMM, whatever its operation: the kernels that are built (gemm.cuh, by their configurations),
// which of them a problem gets, and its launch. `clocks` predicts what a kernel would take; of the first `choices` the
// quickest runs that has what the options force. The grid is as many blocks (clusters) as the GPU holds, each walking
// over tiles, or with persistent = 0 one a tile; tiles are taken in bands so that blocks at work together share
// operands in L2.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>

#include "gemm.cuh"
#include "gemm.h"

namespace tk::gemm {

template <operation Operation> struct problem : matrices {
    typename Operation::extra extra = {};
};

template <config C, operation Operation> void start(const problem<Operation>& p, const options& o, void* stream) {
    using kernel = kernel<C, Operation>;
    using pipeline = lcf<kernel>;
    const bool row_major = o.order == int(tile_order::row_major);
    const tile_bands tiles(int(divide_up(p.m, C.tile_m * C.cluster_m)), int(divide_up(p.n, C.tile_n * C.cluster_n)),
                           row_major ? 1 : square_band(C.tile_m, C.tile_n, C.cluster_m));
    const auto operand = [](const void* data) {
        return static_cast<typename kernel::operand*>(const_cast<void*>(data));
    };
    const int64_t b_rows = kernel::transposed_b ? p.n : p.k, b_cols = kernel::transposed_b ? p.k : p.n;
    constexpr int unit = 16 / sizeof(typename kernel::result);  // what TMA writes at a time
    const typename kernel::globals globals{
        {operand(p.a), 1, 1, p.m, p.k, p.lda, 0, 0},
        {operand(p.b), 1, 1, b_rows, b_cols, p.ldb, 0, 0},
        {static_cast<typename kernel::result*>(p.out), 1, 1, p.m, divide_up(p.n, unit) * unit, p.ldo, 0, 0},
        tiles,
        int(divide_up(p.k, kernel::tile_k)),
        p.extra};
    const int resident = multiprocessors() / kernel::cluster_blocks;
    const int clusters = o.persistent == 0 || tiles.tiles() < resident ? tiles.tiles() : resident;
    kittens::launch<pipeline>({clusters * kernel::cluster_blocks, pipeline::shared_bytes}, stream, globals);
}

template <operation Operation> struct built {
    config shape;
    void (*start)(const problem<Operation>&, const options&, void*);
};
template <operation Operation, config... Shapes>
constexpr built<Operation> built_kernels[] = {
    {fitted<Operation>(Shapes), &start<fitted<Operation>(Shapes), Operation>}...};

// Clocks that a multiprocessor spends on its share of the tiles, from what was measured (README.md): a step costs the
// tensor cores' clocks for 128 bytes of K, and not less than the time in which its operands arrive; a cooperative
// tile's result is written while nothing multiplies, a ping-pong tile's under the other's multiplies, if they last that
// long. An operation's own arithmetic adds to that, by the sums of a thread (`finish_clocks`): in ping-pong a quarter
// of it shows beside the other's multiplies, and half of it at the end, where there are none.
template <operation Operation> double clocks(const config& c, const problem<Operation>& p) {
    const double tiles = double(divide_up(p.m, c.tile_m)) * divide_up(p.n, c.tile_n);
    const double rounds = std::ceil(tiles / multiprocessors());
    const double multiply = c.tile_m * c.tile_n * 128 / limits::multiply_bytes;
    const double arrive = (c.tile_m + c.tile_n) * 128 / limits::operand_bytes * 1.04;
    const double steps = divide_up(p.k, 128 / int(sizeof(typename Operation::operand))) * std::fmax(multiply, arrive);
    const double write = c.tile_m * c.tile_n / limits::written_sums;
    const int consumers = c.pingpong || c.tile_m == 64 ? 1 : 2;  // of a tile
    const double finish = Operation::finish_clocks(p.extra, c.tile_m * c.tile_n / (128 * consumers), consumers);
    if (!c.pingpong) return rounds * (steps + write + finish);
    return rounds * (std::fmax(steps, 1.25 * write + finish) + 0.25 * finish) + 0.5 * finish;
}

inline bool matches(const config& c, const options& o) {
    auto agrees = [](int wanted, int has) { return wanted <= 0 || wanted == has; };
    return agrees(o.stages, c.stages) && agrees(o.tile_m, c.tile_m) && agrees(o.tile_n, c.tile_n) &&
           agrees(o.cluster_m, c.cluster_m) && agrees(o.cluster_n, c.cluster_n) &&
           agrees(o.schedule, c.pingpong ? 2 : 1) && c.hilbert == (o.order == int(tile_order::hilbert));
}

inline std::string name(const config& c) {
    auto pair = [](int x, int y) { return std::to_string(x) + "x" + std::to_string(y); };
    return "tile " + pair(c.tile_m, c.tile_n) + " stages " + std::to_string(c.stages) + " cluster " +
           pair(c.cluster_m, c.cluster_n) + (c.pingpong ? " pingpong" : " cooperative") +
           (c.hilbert ? " order hilbert" : "") + (c.promotion > 0 ? " promotion " + std::to_string(c.promotion) : "");
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
        if (matches(kernels[i].shape, o) && (!best || clocks(kernels[i].shape, p) < clocks(best->shape, p)))
            best = &kernels[i];
    if (best) return *best;
    std::string list;
    for (const auto& candidate : kernels) list += "\n  " + name(candidate.shape);
    throw std::invalid_argument(caller + std::string(": no kernel is built with these options together; there are:") +
                                list);
}

}  // namespace tk::gemm
