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

template <register_tile D, typename A, matrix_operand B>
kittens_device void mma_AB(D& d, const A& a, const B& b, site where = kittens_here) {
    multiply<false, false>(d, a, b, true, "mma_AB", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mma_ABt(D& d, const A& a, const B& b, site where = kittens_here) {
    multiply<false, true>(d, a, b, true, "mma_ABt", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mma_AtB(D& d, const A& a, const B& b, site where = kittens_here) {
    multiply<true, false>(d, a, b, true, "mma_AtB", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mma_AtBt(D& d, const A& a, const B& b, site where = kittens_here) {
    multiply<true, true>(d, a, b, true, "mma_AtBt", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mm_AB(D& d, const A& a, const B& b, site where = kittens_here) {
    multiply<false, false>(d, a, b, false, "mm_AB", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mm_ABt(D& d, const A& a, const B& b, site where = kittens_here) {
    multiply<false, true>(d, a, b, false, "mm_ABt", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mm_AtB(D& d, const A& a, const B& b, site where = kittens_here) {
    multiply<true, false>(d, a, b, false, "mm_AtB", where);
}
template <register_tile D, typename A, matrix_operand B>
kittens_device void mm_AtBt(D& d, const A& a, const B& b, site where = kittens_here) {
    multiply<true, true>(d, a, b, false, "mm_AtBt", where);
}

namespace warpgroup {

// Issued by all four warps of a warpgroup; D's registers, A and B may not be touched until mma_wait. A is a shared tile
// of 64 h rows, or a register tile of 16 h rows a warp; accumulate = 0 drops the old D (what mm_* does).
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_AB(D& d, const A& a, const B& b, int accumulate = 1, site where = kittens_here) {
    issue<false, false>(d, a, b, accumulate, "mma_AB", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_ABt(D& d, const A& a, const B& b, int accumulate = 1, site where = kittens_here) {
    issue<false, true>(d, a, b, accumulate, "mma_ABt", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_AtB(D& d, const A& a, const B& b, int accumulate = 1, site where = kittens_here) {
    issue<true, false>(d, a, b, accumulate, "mma_AtB", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_AtBt(D& d, const A& a, const B& b, int accumulate = 1, site where = kittens_here) {
    issue<true, true>(d, a, b, accumulate, "mma_AtBt", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_AB(D& d, const A& a, const B& b, site where = kittens_here) {
    issue<false, false>(d, a, b, 0, "mm_AB", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_ABt(D& d, const A& a, const B& b, site where = kittens_here) {
    issue<false, true>(d, a, b, 0, "mm_ABt", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_AtB(D& d, const A& a, const B& b, site where = kittens_here) {
    issue<true, false>(d, a, b, 0, "mm_AtB", where);
}
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_AtBt(D& d, const A& a, const B& b, site where = kittens_here) {
    issue<true, true>(d, a, b, 0, "mm_AtBt", where);
}
// D -= A B.
template <register_tile D, typename A, shared_tile B>
kittens_device void mma_subtract_AB(D& d, const A& a, const B& b, site where = kittens_here) {
    issue<false, false, -1>(d, a, b, 1, "mma_subtract_AB", where);
}

}  // namespace warpgroup
}  // namespace kittens
