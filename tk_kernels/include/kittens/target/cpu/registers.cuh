// cpu: register tiles and vectors. Every warp holds its tile as a plain array; layouts are types only, so that what
// compiles here compiles for a GPU. Fresh registers read as NaN.
#pragma once

#include "kittens/target/cpu/runtime/operations.cuh"
#include "kittens/types/registers.cuh"

namespace kittens {

template <typename T, int Length, vec_layout Layout> struct rv : vec_shape<T, Length, Layout> {
    T data[Length];

    rv() { std::memset(static_cast<void*>(data), 0xff, sizeof(data)); }
};

template <typename T, int Rows, int Cols, layout Layout> struct rt : tile_shape<T, Rows, Cols, Layout> {
    alignas(64) T data[Rows][Cols];

    rt() { std::memset(static_cast<void*>(data), 0xff, sizeof(data)); }
    rt(const rt& other) {
        other.touch(false, "a copy");
        std::memcpy(static_cast<void*>(data), other.data, sizeof(data));
    }
    rt& operator=(const rt& other) {
        other.touch(false, "a copy");
        touch(true, "a copy");
        std::memcpy(static_cast<void*>(data), other.data, sizeof(data));
        return *this;
    }
    ~rt() { cpu::end_registers(data, sizeof(data)); }

    void touch(bool write, const char* op, const site* at = nullptr) const {
        cpu::touch_registers(data, sizeof(data), write, op, at);
    }
};

// For every element, as an operation of this name. The first tile may be changed, the others are read.
template <typename F, register_tile Tile, register_tile... Tiles>
kittens_device void each_as(const char* op, F f, Tile& tile, Tiles&... tiles) {
    tile.touch(!std::is_const_v<Tile>, op);
    (tiles.touch(false, op), ...);
    for (int row = 0; row < Tile::rows; row++)
        for (int col = 0; col < Tile::cols; col++) f(row, col, tile.data[row][col], tiles.data[row][col]...);
}
// f(row, col, element of the first tile, of the second, ...) for every element; tiles of one shape and layout.
template <typename F, register_tile Tile, register_tile... Tiles>
kittens_device void each(F f, Tile& tile, Tiles&... tiles) {
    static_assert(((Tiles::rows == Tile::rows && Tiles::cols == Tile::cols && Tiles::order == Tile::order) && ...),
                  "the tiles of one operation must have one shape and layout; use swap_layout or a sub-tile");
    each_as("an element-wise operation", f, tile, tiles...);
}

// f(index, element of the first vector, of the second, ...); vectors of one length and spread.
template <typename F, register_vec Vec, register_vec... Vecs>
kittens_device void each(F f, Vec& vec, Vecs&... vecs) {
    static_assert(((Vecs::length == Vec::length && Vecs::spread == Vec::spread) && ...),
                  "the vectors of one operation must have one length and layout; copy() converts layouts");
    for (int i = 0; i < Vec::length; i++) f(i, vec.data[i], vecs.data[i]...);
}

// f(row, col, the row's value, elements...): a col_vec of the tiles beside them.
template <typename F, register_vec Vec, register_tile Tile, register_tile... Tiles>
kittens_device void each_with_col_vec(F f, const Vec& vec, Tile& tile, Tiles&... tiles) {
    static_assert(Vec::length == Tile::rows && Vec::spread == Tile::col_vec::spread,
                  "one value a row: declare the vector as the tile's col_vec");
    each([&](int row, int col, auto&... elements) { f(row, col, vec.data[row], elements...); }, tile, tiles...);
}

// f(row, col, the column's value, elements...): a row_vec of the tiles beside them.
template <typename F, register_vec Vec, register_tile Tile, register_tile... Tiles>
kittens_device void each_with_row_vec(F f, const Vec& vec, Tile& tile, Tiles&... tiles) {
    static_assert(Vec::length == Tile::cols && Vec::spread == Tile::row_vec::spread,
                  "one value a column: declare the vector as the tile's row_vec");
    each([&](int row, int col, auto&... elements) { f(row, col, vec.data[col], elements...); }, tile, tiles...);
}

// f(row of the lower, {upper, lower} of the first tile, of the second, ...) for the elements of rows r and r + 8 of a
// tile of 16 rows; and f({left, right} ...) for those of columns c and c + cols / 2. All of them may be changed.
template <typename T> struct element_couple {
    T &first, &second;
};
template <typename F, register_tile Tile, register_tile... Tiles>
kittens_device void each_row_couple(F f, Tile& tile, Tiles&... tiles) {
    static_assert(Tile::rows == 16 && Tile::order == layout::row, "each_row_couple: 16 rows, in row layout");
    tile.touch(true, "an operation on rows r and r + 8");
    (tiles.touch(true, "an operation on rows r and r + 8"), ...);
    for (int row = 0; row < 8; row++)
        for (int col = 0; col < Tile::cols; col++)
            f(row + 8, element_couple{tile.data[row][col], tile.data[row + 8][col]},
              element_couple{tiles.data[row][col], tiles.data[row + 8][col]}...);
}
template <typename F, register_tile Tile, register_tile... Tiles>
kittens_device void each_col_couple(F f, Tile& tile, Tiles&... tiles) {
    constexpr int half = Tile::cols / 2;
    static_assert(Tile::width % 2 == 0 && Tile::order == layout::row, "each_col_couple: an even number of base tiles");
    tile.touch(true, "an operation on columns c and c + cols / 2");
    (tiles.touch(true, "an operation on columns c and c + cols / 2"), ...);
    for (int row = 0; row < Tile::rows; row++)
        for (int col = 0; col < half; col++)
            f(element_couple{tile.data[row][col], tile.data[row][col + half]},
              element_couple{tiles.data[row][col], tiles.data[row][col + half]}...);
}

// --- reductions: a warp is one agent here, so that the partial result is already the whole one ------------------
template <typename Combine, register_vec Vec, register_tile Tile>
kittens_device void reduce_rows_partial(Vec& dst, const Tile& src, Combine combine, bool accumulate) {
    static_assert(Vec::length == Tile::rows && Vec::spread == Tile::col_vec::spread,
                  "one value a row: use the tile's col_vec");
    src.touch(false, "a row reduction");
    for (int row = 0; row < Tile::rows; row++) {
        auto value = accumulate ? combine(dst.data[row], src.data[row][0]) : src.data[row][0];
        for (int col = 1; col < Tile::cols; col++) value = combine(value, src.data[row][col]);
        dst.data[row] = value;
    }
}
template <typename Combine, register_vec Vec, register_tile Tile>
kittens_device void reduce_cols_partial(Vec& dst, const Tile& src, Combine combine, bool accumulate) {
    static_assert(Vec::length == Tile::cols && Vec::spread == Tile::row_vec::spread,
                  "one value a column: use the tile's row_vec");
    src.touch(false, "a column reduction");
    for (int col = 0; col < Tile::cols; col++) {
        auto value = accumulate ? combine(dst.data[col], src.data[0][col]) : src.data[0][col];
        for (int row = 1; row < Tile::rows; row++) value = combine(value, src.data[row][col]);
        dst.data[col] = value;
    }
}
template <typename Combine, register_vec Vec>
kittens_device void reduce_finish(Vec&, Combine) {
    static_assert(Vec::spread != vec_layout::naive);
}

template <typename Combine, register_vec Vec>
kittens_device typename Vec::T reduce_all(const Vec& vec, Combine combine, typename Vec::T identity) {
    typename Vec::T value = identity;
    for (int i = 0; i < Vec::length; i++) value = combine(value, vec.data[i]);
    return value;
}

// Whether f holds for some value; the same in every lane.
template <typename F, register_vec Vec>
kittens_device bool any(const Vec& vec, F f) {
    for (int i = 0; i < Vec::length; i++)
        if (f(to_float(vec.data[i]))) return true;
    return false;
}

// On a GPU: the vector is computed before anything that follows. Here everything is.
template <register_vec Vec> kittens_device void settle(const Vec&) {}

// On a GPU: the compiler knows from here on that it is the same in every lane.
kittens_device int uniform(int x) { return x; }
kittens_device bool uniform(bool x) { return x; }
// On a GPU: the same object by an address that the compiler does not know.
template <typename T> kittens_device T& unhoisted(T& x) { return x; }

// --- between layouts ------------------------------------------------------------------------------------------
template <register_vec Dst, register_vec Src>
kittens_device void convert_spread(Dst& dst, const Src& src) {
    static_assert(Dst::length == Src::length);
    for (int i = 0; i < Dst::length; i++) dst.data[i] = from_float<typename Dst::T>(to_float(src.data[i]));
}

// On a GPU every lane keeps what it holds.
template <typename T, int R, int C, layout L>
kittens_device void transpose_layout(rt<T, C, R, L == layout::row ? layout::col : layout::row>& dst,
                                     const rt<T, R, C, L>& src) {
    dst.touch(true, "transpose_layout");
    each_as("transpose_layout", [&](int r, int c, T x) { dst.data[c][r] = x; }, src);
}

// dst[i] = src[0] + ... + src[i], in fp32.
template <typename T, int N>
kittens_device void cumulative_sum(rv<T, N, vec_layout::naive>& dst, const rv<T, N, vec_layout::naive>& src) {
    float running = 0.f;
    for (int i = 0; i < N; i++) dst.data[i] = from_float<T>(running += to_float(src.data[i]));
}

// Value i of a vector.
template <register_vec Vec> kittens_device float value_at(const Vec& vec, int i) {
    if (i < 0 || i >= Vec::length) cpu::fail("value_at: got ", i, " of a vector with ", Vec::length, " values");
    return to_float(vec.data[i]);
}

// dst(r, c) = src((r + by) % 16, c), and src(r, (c + By) % 16). dst may be src.
template <typename T, int C> kittens_device void rotate_rows(rt<T, 16, C>& dst, const rt<T, 16, C>& src, int by) {
    static_assert(sizeof(T) == 2, "rotate_rows: 16-bit elements; convert first");
    if (by < 0) cpu::fail("rotate_rows: got ", by, ", needs a number of rows from 0 on");
    const rt<T, 16, C> before = src;
    each_as("rotate_rows", [&](int r, int c, T& d) { d = before.data[(r + by) % 16][c]; }, dst);
}
template <int By, typename T, int C> kittens_device void rotate_rows(rt<T, 16, C>& dst, const rt<T, 16, C>& src) {
    rotate_rows(dst, src, By);
}
template <int By, typename T, int R> kittens_device void rotate_cols(rt<T, R, 16>& dst, const rt<T, R, 16>& src) {
    static_assert(sizeof(T) == 2, "rotate_cols: 16-bit elements; convert first");
    const rt<T, R, 16> before = src;
    each_as("rotate_cols", [&](int r, int c, T& d) { d = before.data[r][(c + By) % 16]; }, dst);
}

// dst = a b of 16-bit tiles; the product is rounded once.
template <typename T, int R, int C, layout L>
kittens_device void multiply_elements(rt<T, R, C, L>& dst, const rt<T, R, C, L>& a, const rt<T, R, C, L>& b) {
    each([](int, int, T& d, T x, T y) { d = from_float<T>(to_float(x) * to_float(y)); }, dst, a, b);
}

template <typename T, int R, int C, layout L>
kittens_device void swap_layout(rt<T, R, C, L == layout::row ? layout::col : layout::row>& dst,
                                const rt<T, R, C, L>& src) {
    static_assert(sizeof(T) == 2, "swap_layout: 16-bit elements; convert first");
    dst.touch(true, "swap_layout");
    src.touch(false, "swap_layout");
    std::memcpy(static_cast<void*>(dst.data), src.data, sizeof(dst.data));
}

template <typename T, int R, int C, layout L>
kittens_device void transpose(rt<T, C, R, L>& dst, const rt<T, R, C, L>& src) {
    static_assert(sizeof(T) == 2, "transpose: 16-bit elements; convert first");
    dst.touch(true, "transpose");
    each_as("transpose", [&](int r, int c, T x) { dst.data[c][r] = x; }, src);
}

// Part (r, c) of a tile, in units of the part.
template <register_tile Part, register_tile Tile> void check_part(const char* op, int r, int c) {
    constexpr int down = Tile::rows / Part::rows, across = Tile::cols / Part::cols;
    static_assert(Tile::rows % Part::rows == 0 && Tile::cols % Part::cols == 0,
                  "part, place: the tile must be a whole number of parts");
    if (r < 0 || c < 0 || r >= down || c >= across)
        cpu::fail(op, ": got (", r, ", ", c, ") of a tile with ", down, " x ", across, " parts");
}
template <typename T, int R, int C, int PR, int PC, layout L>
kittens_device void part(rt<T, PR, PC, L>& dst, const rt<T, R, C, L>& src, int r, int c) {
    check_part<rt<T, PR, PC, L>, rt<T, R, C, L>>("part", r, c);
    src.touch(false, "part");
    each_as("part", [&](int i, int j, T& d) { d = src.data[r * PR + i][c * PC + j]; }, dst);
}
// The reverse: dst's part (r, c) = src.
template <typename T, int R, int C, int PR, int PC, layout L>
kittens_device void place(rt<T, R, C, L>& dst, const rt<T, PR, PC, L>& src, int r, int c) {
    check_part<rt<T, PR, PC, L>, rt<T, R, C, L>>("place", r, c);
    dst.touch(true, "place");
    each_as("place", [&](int i, int j, T x) { dst.data[r * PR + i][c * PC + j] = x; }, src);
}

}  // namespace kittens
