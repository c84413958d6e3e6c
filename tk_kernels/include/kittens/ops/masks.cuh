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

// What a query of attention may see: keys up to its row + offset, if causal, and below the number of keys.
struct visible_keys {
    int keys, offset;
    bool causal;

    // Keys that the rows before `end` see; tiles of so many of them.
    kittens_host_device int before(int end) const {
        const int seen = causal && end + offset < keys ? end + offset : keys;
        return seen > 0 ? seen : 0;
    }
    kittens_host_device int tiles_before(int end, int tile_keys) const {
        return (before(end) + tile_keys - 1) / tile_keys;
    }
    // Hides the rest of a tile of scores: rows are queries from `row` on, columns are keys from `key` on.
    template <register_tile Scores> kittens_device void hide(Scores& s, int row, int key,
                                                             float value = -INFINITY) const {
        if (before(row + 1) >= key + Scores::cols) return;
        const int last = row + offset - key, tail = keys - key;
        if (causal) mask(s, s, [=](int r, int c) { return c <= last + r && c < tail; }, value);
        else right_fill(s, s, tail, value);
    }
    // The same of a transposed tile, whose rows are keys. It is part of a tile of TileKeys keys, from `first` on: where
    // every query sees all of that, nothing is done, in all of its parts.
    template <int TileKeys, register_tile Scores>
    kittens_device void hide_transposed(Scores& s, int row, int first, int key, float value = -INFINITY) const {
        if (first + TileKeys <= before(row + 1)) return;
        const int last = row + offset - key, tail = keys - key;
        if (causal) mask(s, s, [=](int r, int c) { return r <= last + c && r < tail; }, value);
        else lower_fill(s, s, tail, value);
    }
};

}  // namespace kittens
