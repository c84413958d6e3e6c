// Matrices that may lie in memory the other way round: the registers are renamed, nothing moves between lanes.
#pragma once

namespace kittens {

// A tensor of matrices that are kept as they are (rows_first) or transposed.
template <global_tensor Gl> struct either_order {
    Gl tensor;
    bool rows_first;
};
// A part of such a matrix, at its place in the matrix itself, however it is kept. Zeros past the end, where nothing is
// stored.
template <typename T, int R, int C, global_tensor Gl>
kittens_device void load(rt<T, R, C>& dst, const either_order<Gl>& src, element_coord at, site where = kittens_here) {
    if (src.rows_first) {
        load(dst, src.tensor, at, where);
    } else {
        rt<T, C, R, layout::col> turned;
        load(turned, src.tensor, element_coord{at.b, at.d, at.c, at.r}, where);
        transpose_layout(dst, turned);
    }
}
template <global_tensor Gl, typename T, int R, int C>
kittens_device void store(const either_order<Gl>& dst, const rt<T, R, C>& src, element_coord at,
                          site where = kittens_here) {
    if (dst.rows_first) {
        store(dst.tensor, src, at, where);
    } else {
        rt<T, C, R, layout::col> turned;
        transpose_layout(turned, src);
        store(dst.tensor, turned, element_coord{at.b, at.d, at.c, at.r}, where);
    }
}

}  // namespace kittens
