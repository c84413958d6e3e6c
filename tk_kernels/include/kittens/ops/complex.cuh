// Complex tiles: a pair of tiles, the real and the imaginary parts, in registers (crt) or in shared memory (cst).
#pragma once

namespace kittens {

template <typename Tile> struct complex {
    Tile real, imag;
};
template <int R, int C> using crt_fl = complex<rt_fl<R, C>>;
template <int R, int C> using crt_bf = complex<rt_bf<R, C>>;
template <int R, int C> using cst_bf = complex<st_bf<R, C>>;

// Which operand of a product enters as its complex conjugate.
enum class conjugate { none, first, second };

// dst = a b, element by element, in fp32 and rounded once. dst is neither a nor b.
template <conjugate Which = conjugate::none, register_tile Dst, register_tile A, register_tile B>
kittens_device void mul(complex<Dst>& dst, const complex<A>& a, const complex<B>& b) {
    constexpr float sign_a = Which == conjugate::first ? -1.f : 1.f, sign_b = Which == conjugate::second ? -1.f : 1.f;
    each([](int, int, auto&) {}, dst.imag);  // tells the cpu target that it is written too
    each(
        [](int, int, auto& real, auto& imag, const auto& a_real, const auto& a_imag, const auto& b_real,
           const auto& b_imag) {
            const float ar = to_float(a_real), ai = to_float(a_imag), br = to_float(b_real), bi = to_float(b_imag);
            detail::put(real, ar * br - sign_a * sign_b * (ai * bi));
            detail::put(imag, sign_b * (ar * bi) + sign_a * (ai * br));
        },
        dst.real, dst.imag, a.real, a.imag, b.real, b.imag);
}

// Both parts: converts the element type; cuts out a part.
template <register_tile Dst, register_tile Src> kittens_device void copy(complex<Dst>& dst, const complex<Src>& src) {
    copy(dst.real, src.real), copy(dst.imag, src.imag);
}
template <register_tile Dst, register_tile Src>
kittens_device void part(complex<Dst>& dst, const complex<Src>& src, int row, int col) {
    part(dst.real, src.real, row, col), part(dst.imag, src.imag, row, col);
}

namespace warpgroup {

// D = A B + A' B'. With the parts of a complex A, and of a B that holds what makes them either part of D: half of a
// complex product.
template <register_tile D, typename A, shared_tile B>
kittens_device void mm_AB(D& d, const A& a, const B& b, const A& other_a, const B& other_b, site where = kittens_here) {
    warpgroup::mm_AB(d, a, b, where);
    warpgroup::mma_AB(d, other_a, other_b, 1, where);
}

template <register_tile Dst, shared_tile Src>
kittens_device void load(complex<Dst>& dst, const complex<Src>& src, site where = kittens_here) {
    warpgroup::load(dst.real, src.real, where);
    warpgroup::load(dst.imag, src.imag, where);
}
template <shared_tile Dst, register_tile Src>
kittens_device void store(complex<Dst>& dst, const complex<Src>& src, site where = kittens_here) {
    warpgroup::store(dst.real, src.real, where);
    warpgroup::store(dst.imag, src.imag, where);
}

// D = A B: four real multiplies, asynchronous like those of real tiles; wait with mma_wait(d.real, d.imag).
template <conjugate Which = conjugate::none, register_tile D, typename A, shared_tile B>
kittens_device void mm_AB(complex<D>& d, const complex<A>& a, const complex<B>& b, site where = kittens_here) {
    warpgroup::mm_AB(d.real, a.real, b.real, where);
    if constexpr (Which == conjugate::none) {
        warpgroup::mma_subtract_AB(d.real, a.imag, b.imag, where);
        warpgroup::mm_AB(d.imag, a.real, b.imag, where);
        warpgroup::mma_AB(d.imag, a.imag, b.real, 1, where);
    } else {
        warpgroup::mma_AB(d.real, a.imag, b.imag, 1, where);
        if constexpr (Which == conjugate::first) {
            warpgroup::mm_AB(d.imag, a.real, b.imag, where);
            warpgroup::mma_subtract_AB(d.imag, a.imag, b.real, where);
        } else {
            warpgroup::mm_AB(d.imag, a.imag, b.real, where);
            warpgroup::mma_subtract_AB(d.imag, a.real, b.imag, where);
        }
    }
}

}  // namespace warpgroup
}  // namespace kittens
