// GPU targets: the names of a warpgroup's multiplies, for the target's own warpgroup::issue.
#pragma once

namespace kittens {
namespace warpgroup {

// Issued by all four warps of a warpgroup; D's registers, A and B may not be touched until mma_wait. A is a shared tile
// of 64 h rows, or a register tile of 16 h rows a warp; accumulate = 0 drops the old D (what mm_* does).
template <register_tile D, typename A, shared_tile B> kittens_device void mma_AB(D& d, const A& a, const B& b,
                                                                                 int accumulate = 1,
                                                                                 site = kittens_here) {
    issue<false, false>(d, a, b, accumulate);
}
template <register_tile D, typename A, shared_tile B> kittens_device void mma_ABt(D& d, const A& a, const B& b,
                                                                                  int accumulate = 1,
                                                                                  site = kittens_here) {
    issue<false, true>(d, a, b, accumulate);
}
template <register_tile D, typename A, shared_tile B> kittens_device void mma_AtB(D& d, const A& a, const B& b,
                                                                                  int accumulate = 1,
                                                                                  site = kittens_here) {
    issue<true, false>(d, a, b, accumulate);
}
template <register_tile D, typename A, shared_tile B> kittens_device void mma_AtBt(D& d, const A& a, const B& b,
                                                                                   int accumulate = 1,
                                                                                   site = kittens_here) {
    issue<true, true>(d, a, b, accumulate);
}
template <register_tile D, typename A, shared_tile B> kittens_device void mm_AB(D& d, const A& a, const B& b,
                                                                                site = kittens_here) {
    issue<false, false>(d, a, b, 0);
}
template <register_tile D, typename A, shared_tile B> kittens_device void mm_ABt(D& d, const A& a, const B& b,
                                                                                 site = kittens_here) {
    issue<false, true>(d, a, b, 0);
}
template <register_tile D, typename A, shared_tile B> kittens_device void mm_AtB(D& d, const A& a, const B& b,
                                                                                 site = kittens_here) {
    issue<true, false>(d, a, b, 0);
}
template <register_tile D, typename A, shared_tile B> kittens_device void mm_AtBt(D& d, const A& a, const B& b,
                                                                                  site = kittens_here) {
    issue<true, true>(d, a, b, 0);
}

// D -= A B.
template <register_tile D, typename A, shared_tile B> kittens_device void mma_subtract_AB(D& d, const A& a, const B& b,
                                                                                          site = kittens_here) {
    issue<false, false, -1>(d, a, b, 1);
}

}  // namespace warpgroup
}  // namespace kittens
