// Masks: a map over (row, col). Rows and columns are the tile's own; at warpgroup scope warpgroup::row translates.
#pragma once

namespace kittens {

// dst = keep(row, col) ? src : value
template <typename Keep, register_tile Dst, register_tile Src>
kittens_device void mask(Dst& dst, const Src& src, Keep keep, float value) {
    each([&](int row, int col, auto& d, const auto& x) { detail::put(d, keep(row, col) ? to_float(x) : value); }, dst,
         src);
}

// Keeps the lower (upper) triangle: col <= row + diagonal (col >= row + diagonal).
template <register_tile Dst, register_tile Src> kittens_device void tril(Dst& dst, const Src& src, int diagonal = 0,
                                                                         float value = 0.f) {
    mask(dst, src, [=](int row, int col) { return col <= row + diagonal; }, value);
}
template <register_tile Dst, register_tile Src> kittens_device void triu(Dst& dst, const Src& src, int diagonal = 0,
                                                                         float value = 0.f) {
    mask(dst, src, [=](int row, int col) { return col >= row + diagonal; }, value);
}
// Attention's mask: what a query may not see.
template <register_tile Dst, register_tile Src> kittens_device void make_causal(Dst& dst, const Src& src,
                                                                                float value = 0.f) {
    tril(dst, src, 0, value);
}

// Fills the columns (rows) from, or up to, an index: tails.
template <register_tile Dst, register_tile Src> kittens_device void right_fill(Dst& dst, const Src& src, int from_col,
                                                                               float value = 0.f) {
    mask(dst, src, [=](int, int col) { return col < from_col; }, value);
}
template <register_tile Dst, register_tile Src> kittens_device void left_fill(Dst& dst, const Src& src, int to_col,
                                                                              float value = 0.f) {
    mask(dst, src, [=](int, int col) { return col >= to_col; }, value);
}
template <register_tile Dst, register_tile Src> kittens_device void lower_fill(Dst& dst, const Src& src, int from_row,
                                                                               float value = 0.f) {
    mask(dst, src, [=](int row, int) { return row < from_row; }, value);
}
template <register_tile Dst, register_tile Src> kittens_device void upper_fill(Dst& dst, const Src& src, int to_row,
                                                                               float value = 0.f) {
    mask(dst, src, [=](int row, int) { return row >= to_row; }, value);
}

namespace warpgroup {
// Row of the warpgroup's tile that is row `row` of this warp's register tile.
kittens_device int row(int row) { return row / 16 * 64 + 16 * warp_in_group() + row % 16; }
}  // namespace warpgroup

}  // namespace kittens
