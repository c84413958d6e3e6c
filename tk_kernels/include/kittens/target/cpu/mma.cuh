// cpu: matrix multiplies, by a warp (at once) and by a warpgroup (asynchronous: it reads and adds late).
#pragma once

#include "kittens/target/cpu/runtime/multiply.cuh"
#include "kittens/target/cpu/sync.cuh"

namespace kittens {

namespace cpu {

// A tile's rows [first, first + rows), or columns when transposed, as floats, rows x k, row-major.
template <bool Trans, register_tile Tile>
void unpack_rows(float* to, const Tile& tile, int first, int rows, int k) {
    for (int r = 0; r < rows; r++)
        for (int l = 0; l < k; l++) to[r * k + l] = to_float(Trans ? tile.data[l][first + r] : tile.data[first + r][l]);
}
template <bool Trans, shared_tile Tile>
void unpack_rows(float* to, const Tile& tile, int first, int rows, int k) {
    for (int r = 0; r < rows; r++)
        for (int l = 0; l < k; l++)
            to[r * k + l] = to_float(Trans ? element(tile, l, first + r) : element(tile, first + r, l));
}
template <typename T> void unpack_run(float* to, const T* from, int count) {
    for (int i = 0; i < count; i++) to[i] = to_float(from[i]);
}

// All of B as floats, k x n, row-major.
template <bool Trans, register_tile Tile> void unpack_b(float* to, const Tile& tile) {
    constexpr int k = Trans ? Tile::cols : Tile::rows, n = Trans ? Tile::rows : Tile::cols;
    for (int l = 0; l < k; l++)
        for (int j = 0; j < n; j++) to[l * n + j] = to_float(Trans ? tile.data[j][l] : tile.data[l][j]);
}
template <bool Trans, shared_tile Tile> void unpack_b(float* to, const Tile& tile) {
    constexpr int n = Trans ? Tile::rows : Tile::cols;
    for (int chunk = 0; chunk < Tile::chunks; chunk++)
        for (int row = 0; row < Tile::rows; row++) {
            const auto* from = &element(tile, row, chunk * Tile::chunk_cols);
            if constexpr (!Trans) unpack_run(to + row * n + chunk * Tile::chunk_cols, from, Tile::chunk_cols);
            else
                for (int c = 0; c < Tile::chunk_cols; c++)
                    to[(chunk * Tile::chunk_cols + c) * n + row] = to_float(from[c]);
        }
}

// D's rows of one warp: 16 of every 64 of A's rows at warpgroup scope, else (quarter < 0) all.
template <bool TransA, bool TransB, int Sign = 1, typename D, typename A, typename B>
void multiply_tiles(D& d, const A& a, const B& b, bool accumulate, int quarter) {
    constexpr int k = TransB ? B::cols : B::rows, n = TransB ? B::rows : B::cols;
    float* wide_a = scratch(0, size_t(D::rows) * k);
    float* wide_b = scratch(1, size_t(k) * n);
    for (int i = 0; i < D::rows; i += 16)
        unpack_rows<TransA>(wide_a + i * k, a, is_rt<A> || quarter < 0 ? i : 4 * i + 16 * quarter, 16, k);
    if constexpr (Sign < 0)
        for (int i = 0; i < D::rows * k; i++) wide_a[i] = -wide_a[i];
    unpack_b<TransB>(wide_b, b);
    if (!accumulate) std::memset(static_cast<void*>(d.data), 0, sizeof(d.data));
    multiply_add(&d.data[0][0], n, wide_a, k, wide_b, n, D::rows, n, k);
}

}  // namespace cpu

// --- warp -----------------------------------------------------------------------------------------------------
template <bool TransA, bool TransB, register_tile Acc, register_tile A, register_tile B>
kittens_device void multiply(Acc& d, const A& a, const B& b, bool accumulate, const char* op, site where) {
    d.touch(true, op, &where);
    a.touch(false, op, &where);
    b.touch(false, op, &where);
    cpu::multiply_tiles<TransA, TransB>(d, a, b, accumulate, 0);
}

// B, or A and B, in shared memory.
template <bool TransA, bool TransB, register_tile Acc, typename A, shared_tile B>
kittens_device void multiply(Acc& d, const A& a, const B& b, bool accumulate, const char* op, site where) {
    const auto [w, who] = cpu::begin(op, where);
    d.touch(true, op, &where);
    if constexpr (is_rt<A>) {
        a.touch(false, op, &where);
    } else {
        cpu::access_shared(w, who, a.data, false, cpu::whole(a));
    }
    cpu::access_shared(w, who, b.data, false, cpu::whole(b));
    cpu::multiply_tiles<TransA, TransB>(d, a, b, accumulate, -1);
}

// --- warpgroup ------------------------------------------------------------------------------------------------
namespace warpgroup {

template <bool TransA, bool TransB, int Sign = 1, register_tile D, typename A, shared_tile B>
kittens_device void issue(D& d, const A& a, const B& b, int accumulate, const char* op, site where) {
    const auto [w, who] = cpu::begin(op, where);
    const cpu::tick when = cpu::next_multiply(w, who);
    const auto claim = [&](const void* data, size_t bytes, bool write) {
        const auto* low = static_cast<const unsigned char*>(data);
        // Multiplies into one accumulator follow one another in order: that needs no wait.
        const bool continues =
            write && std::any_of(w.claims.begin(), w.claims.end(), [&](const cpu::register_claim& c) {
                return c.write && c.low == low && c.high == low + bytes;
            });
        if (!continues) cpu::touch_registers(data, bytes, write, op, &where);
        w.claims.push_back({low, low + bytes, write, when, who});
    };
    claim(d.data, sizeof(d.data), true);
    if constexpr (is_rt<A>) {
        claim(a.data, sizeof(a.data), false);
    } else {
        cpu::access_shared_async(w, w.multiply_agent, when, who, a.data, false, cpu::whole(a));
    }
    cpu::access_shared_async(w, w.multiply_agent, when, who, b.data, false, cpu::whole(b));
    w.machine->start(w, {[](const cpu::multiply& m) {
                             cpu::multiply_tiles<TransA, TransB, Sign>(
                                 *static_cast<D*>(m.d), *static_cast<const A*>(m.a), *static_cast<const B*>(m.b),
                                 m.accumulate != 0, m.quarter);
                         },
                         &d, &a, &b, accumulate, w.index % warpgroup_warps, when});
}

// Waits until at most Pending of this warpgroup's multiplies are in flight. Name the accumulators that are read next.
template <int Pending = 0> kittens_device void mma_wait(site = kittens_here) {
    cpu::warp& w = cpu::begin();
    const cpu::tick up_to = w.multiplies > Pending ? w.multiplies - Pending : 0;
    w.machine->land_multiplies(w, up_to);
    w.before.see(w.multiply_agent, up_to);
    std::erase_if(w.claims, [&](const cpu::register_claim& c) { return c.when <= up_to; });
}
template <int Pending = 0, register_tile... Tiles>
    requires(sizeof...(Tiles) > 0)
kittens_device void mma_wait(Tiles&...) {
    mma_wait<Pending>();
}

}  // namespace warpgroup
}  // namespace kittens
