// Matrix multiplies, by a warp (at once) and by a warpgroup (asynchronous: wait with mma_wait).
//
// mma_AB   D += A B        A rows x K, B K x cols
// mma_ABt  D += A B^T                  B cols x K
// mma_AtB  D += A^T B      A K x rows
// mma_AtBt D += A^T B^T
// mm_*     the same without the old D.
//
// A lies in registers or in shared memory, and so does B; where B is in registers, so is A.
#pragma once

namespace kittens {

template <typename X>
concept matrix_operand = is_rt<X> || is_st<X>;

// What a product asks of its operands: of a warp's, or of a warpgroup's, in which each warp holds a quarter of D's
// rows.
template <bool TransA, bool TransB, bool Warpgroup, register_tile D, typename A, matrix_operand B>
kittens_device void require_product(const D&, const A&, const B&) {
    using T = typename B::T;
    constexpr int k = TransB ? B::cols : B::rows, n = TransB ? B::rows : B::cols;
    constexpr int m = (Warpgroup && is_rt<A> ? 4 : 1) * (TransA ? A::cols : A::rows);
    constexpr bool is_fp8 = std::is_same_v<T, e4m3> && Warpgroup;
    static_assert(std::is_same_v<typename D::T, float> && D::order == layout::row,
                  "mma: the accumulator is fp32 in row layout");
    static_assert((sizeof(T) == 2 || is_fp8) && std::is_same_v<typename A::T, T>,
                  "mma: A and B must both be bf16 or both fp16; at warpgroup scope also both e4m3");
    static_assert(!is_fp8 || (!is_rt<A> && !TransA && TransB),
                  "mma: e4m3 operands lie in shared memory with K contiguous; use mma_ABt");
    static_assert(k % (is_fp8 ? 32 : 16) == 0, "mma: K must be a multiple of 16, of 32 for e4m3");
    static_assert((Warpgroup ? 4 : 1) * D::rows == m && D::cols == n && (TransA ? A::rows : A::cols) == k,
                  "mma: shapes do not match; at warpgroup scope each warp holds a quarter of D's rows");
    static_assert(!Warpgroup || m % 64 == 0, "mma: a warpgroup's A has a multiple of 64 rows");
    static_assert(!Warpgroup || n <= 256, "mma: a warpgroup's accumulator has at most 256 columns; split the tile");
    if constexpr (is_rt<B>) {
        static_assert(A::order == (TransA ? layout::col : layout::row),
                      "mma: A must be in row layout, or in col layout when transposed; use swap_layout");
        static_assert(B::order == (TransB ? layout::row : layout::col),
                      "mma: B must be in col layout, or in row layout when transposed; use swap_layout");
    } else if constexpr (is_rt<A>) {
        static_assert(A::order == layout::row && !TransA,
                      "mma: A in registers has D's rows, in row layout; use swap_layout");
    }
}

template <bool TransA, bool TransB, typename D, typename A, typename B>
kittens_device void by_warp(D& d, const A& a, const B& b, bool accumulate, const char* op, site where) {
    require_product<TransA, TransB, false>(d, a, b);
    multiply<TransA, TransB>(d, a, b, accumulate, op, where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mma_AB(D& d, const A& a, const B& b, site where = kittens_here) {
    by_warp<false, false>(d, a, b, true, "mma_AB", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mma_ABt(D& d, const A& a, const B& b, site where = kittens_here) {
    by_warp<false, true>(d, a, b, true, "mma_ABt", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mma_AtB(D& d, const A& a, const B& b, site where = kittens_here) {
    by_warp<true, false>(d, a, b, true, "mma_AtB", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mma_AtBt(D& d, const A& a, const B& b, site where = kittens_here) {
    by_warp<true, true>(d, a, b, true, "mma_AtBt", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mm_AB(D& d, const A& a, const B& b, site where = kittens_here) {
    by_warp<false, false>(d, a, b, false, "mm_AB", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mm_ABt(D& d, const A& a, const B& b, site where = kittens_here) {
    by_warp<false, true>(d, a, b, false, "mm_ABt", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mm_AtB(D& d, const A& a, const B& b, site where = kittens_here) {
    by_warp<true, false>(d, a, b, false, "mm_AtB", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mm_AtBt(D& d, const A& a, const B& b, site where = kittens_here) {
    by_warp<true, true>(d, a, b, false, "mm_AtBt", where);
}

namespace warpgroup {

template <bool TransA, bool TransB, int Sign = 1, typename D, typename A, typename B>
kittens_device void by_group(D& d, const A& a, const B& b, int accumulate, const char* op, site where) {
    require_product<TransA, TransB, true>(d, a, b);
    issue<TransA, TransB, Sign>(d, a, b, accumulate, op, where);
}
// Issued by all four warps of a warpgroup; D's registers, A and B may not be touched until mma_wait. A is a shared tile
// of 64 h rows, or a register tile of 16 h rows a warp; accumulate = 0 drops the old D (what mm_* does).
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_AB(D& d, const A& a, const B& b, int accumulate = 1, site where = kittens_here) {
    by_group<false, false>(d, a, b, accumulate, "mma_AB", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_ABt(D& d, const A& a, const B& b, int accumulate = 1, site where = kittens_here) {
    by_group<false, true>(d, a, b, accumulate, "mma_ABt", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_AtB(D& d, const A& a, const B& b, int accumulate = 1, site where = kittens_here) {
    by_group<true, false>(d, a, b, accumulate, "mma_AtB", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_AtBt(D& d, const A& a, const B& b, int accumulate = 1, site where = kittens_here) {
    by_group<true, true>(d, a, b, accumulate, "mma_AtBt", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_AB(D& d, const A& a, const B& b, site where = kittens_here) {
    by_group<false, false>(d, a, b, 0, "mm_AB", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_ABt(D& d, const A& a, const B& b, site where = kittens_here) {
    by_group<false, true>(d, a, b, 0, "mm_ABt", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_AtB(D& d, const A& a, const B& b, site where = kittens_here) {
    by_group<true, false>(d, a, b, 0, "mm_AtB", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_AtBt(D& d, const A& a, const B& b, site where = kittens_here) {
    by_group<true, true>(d, a, b, 0, "mm_AtBt", where);
}
// D -= A B.
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_subtract_AB(D& d, const A& a, const B& b, site where = kittens_here) {
    by_group<false, false, -1>(d, a, b, 1, "mma_subtract_AB", where);
}

}  // namespace warpgroup
}  // namespace kittens
