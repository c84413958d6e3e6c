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
    using T = typename A::T;
    constexpr int m = TransA ? A::cols : A::rows, k = TransA ? A::rows : A::cols, n = TransB ? B::rows : B::cols;
    static_assert(std::is_same_v<typename Acc::T, float> && Acc::order == layout::row,
                  "mma: the accumulator is fp32 in row layout");
    static_assert(sizeof(T) == 2 && std::is_same_v<T, typename B::T>, "mma: A and B must both be bf16 or both fp16");
    static_assert(Acc::rows == m && Acc::cols == n && (TransB ? B::cols : B::rows) == k, "mma: shapes do not match");
    static_assert(A::order == (TransA ? layout::col : layout::row),
                  "mma: A must be in row layout, or in col layout when transposed; use swap_layout");
    static_assert(B::order == (TransB ? layout::row : layout::col),
                  "mma: B must be in col layout, or in row layout when transposed; use swap_layout");
    d.touch(true, op, &where);
    a.touch(false, op, &where);
    b.touch(false, op, &where);
    cpu::multiply_tiles<TransA, TransB>(d, a, b, accumulate, 0);
}

// B, or A and B, in shared memory.
template <bool TransA, bool TransB, register_tile Acc, typename A, shared_tile B>
kittens_device void multiply(Acc& d, const A& a, const B& b, bool accumulate, const char* op, site where) {
    using T = typename B::T;
    constexpr int m = TransA ? A::cols : A::rows, k = TransA ? A::rows : A::cols, n = TransB ? B::rows : B::cols;
    static_assert(std::is_same_v<typename Acc::T, float> && Acc::order == layout::row,
                  "mma: the accumulator is fp32 in row layout");
    static_assert(sizeof(T) == 2 && std::is_same_v<T, typename A::T>, "mma: A and B must both be bf16 or both fp16");
    static_assert(Acc::rows == m && Acc::cols == n && (TransB ? B::cols : B::rows) == k, "mma: shapes do not match");
    const auto [w, who] = cpu::begin(op, where);
    d.touch(true, op, &where);
    if constexpr (is_rt<A>) {
        static_assert(A::order == layout::row && !TransA,
                      "mma: A in registers has D's rows, in row layout; use swap_layout");
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
    using T = typename B::T;
    constexpr bool a_in_registers = is_rt<A>;
    constexpr int m = a_in_registers ? 4 * A::rows : TransA ? A::cols : A::rows;
    constexpr int k = TransA ? A::rows : A::cols, n = TransB ? B::rows : B::cols;
    static_assert(std::is_same_v<typename D::T, float> && D::order == layout::row,
                  "mma: the accumulator is fp32 in row layout");
    constexpr bool is_fp8 = std::is_same_v<T, e4m3>;
    static_assert((sizeof(T) == 2 || is_fp8) && std::is_same_v<typename A::T, T>,
                  "mma: A and B must both be bf16, both fp16 or both e4m3");
    static_assert(!is_fp8 || (!a_in_registers && !TransA && TransB),
                  "mma: e4m3 operands lie in shared memory with K contiguous; use mma_ABt");
    static_assert(k % (is_fp8 ? 32 : 16) == 0, "mma: K must be a multiple of 16, of 32 for e4m3");
    static_assert(4 * D::rows == m && D::cols == n && (TransB ? B::cols : B::rows) == k,
                  "mma: shapes do not match; at warpgroup scope each warp holds a quarter of D's rows");
    static_assert(m % 64 == 0, "mma: a warpgroup's A has a multiple of 64 rows");
    static_assert(n <= 256, "wgmma: the accumulator's width must be a multiple of 16, at most 256; split the tile");
    static_assert(!(a_in_registers && TransA), "mma: A in registers cannot be transposed; use swap_layout");
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
    if constexpr (a_in_registers) {
        static_assert(A::order == layout::row, "mma: A in registers must be in row layout; use swap_layout");
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
