// Order in which a grid visits the tiles of a matrix. Blocks that run together share L2: what they read together should
// be a compact patch of the output, whose rows of A and columns of B are few.
#pragma once

#include <algorithm>
#include <cmath>

namespace kittens {

// supergroup: bands of `band` tile rows, each walked column by column: a wave of W blocks reads about band rows of A
// and W / band columns of B. row_major is a band of one: a wave reads few rows of A and W columns of B. hilbert is
// compact at every scale.
enum class tile_order { supergroup, row_major, hilbert };

struct tile_index {
    int row, col;
};

// Division of a non-negative int by one that is known on the host: a multiply and a shift (Granlund and Montgomery
// 1994, theorem 4.2, with 32-bit operands and a 31-bit dividend).
struct divisor {
    int value;
    uint32_t magic = 0;
    int shift = 0;

    explicit divisor(int value_) : value(value_) {
        while ((int64_t(1) << shift) < value) shift++;
        magic = uint32_t(((int64_t(1) << (31 + shift)) + value - 1) / value);
    }
    kittens_host_device int divide(int x) const { return int((uint64_t(x) * magic) >> (31 + shift)); }
    kittens_host_device int divide(int x, int& rest) const {
        const int quotient = divide(x);
        rest = x - quotient * value;
        return quotient;
    }
};

// Generalised Hilbert curve over a rows x cols rectangle, in bands as high as the largest power of two that fits: each
// band's squares are Hilbert curves, walked left to right.
kittens_host_device tile_index hilbert(int index, int rows, int cols) {
    int first_row = 0, side = 1;
    const int smaller = rows < cols ? rows : cols;
    while (2 * side <= smaller) side *= 2;
    // The last band may be lower: it uses the largest square that fits into it.
    while (index >= side * cols) {
        index -= side * cols;
        first_row += side;
        while (first_row + side > rows) side /= 2;
    }
    const int square = index / (side * side);
    if ((square + 1) * side > cols) {  // the strip right of the last whole square: column by column
        const int within = index - cols / side * side * side;
        return {first_row + within % side, cols / side * side + within / side};
    }
    int at = index - square * side * side, row = 0, col = 0;
    for (int s = 1; s < side; s *= 2) {
        const int half_col = 1 & (at / 2), half_row = 1 & (at ^ half_col);
        if (half_row == 0) {
            if (half_col == 1) row = s - 1 - row, col = s - 1 - col;
            const int swap = row;
            row = col, col = swap;
        }
        row += s * half_row;
        col += s * half_col;
        at /= 4;
    }
    return {first_row + row, square * side + col};
}

// The tiles of a rows x cols matrix in bands, set up on the host so that a block finds its tile without a division.
struct tile_bands {
    int rows, cols, band;
    divisor by_band, by_height, by_last_height;

    tile_bands(int rows_, int cols_, int band_)
        : rows(rows_),
          cols(cols_),
          band(band_ < rows_ ? band_ : rows_),
          by_band(band * cols_),
          by_height(band),
          by_last_height(rows_ % band == 0 ? band : rows_ % band) {}

    kittens_host_device int tiles() const { return rows * cols; }

    kittens_host_device tile_index at(int index) const {
        const int first = by_band.divide(index) * band;
        const divisor& height = rows - first < band ? by_last_height : by_height;
        const int within = index - first * cols, col = height.divide(within);
        return {first + within - col * height.value, col};
    }
};

// Tile rows of a band where a row's first tiles are its longest tasks, as causal attention's heads have them, and each
// row needs `row_bytes` of the L2 while its band runs: 16 at most, which divide all rows and stay in L2. A last band of
// fewer would begin its longest tasks last: 42 heads of 256 leave 4.
inline int dividing_band(int rows, int64_t row_bytes) {
    constexpr int most = 16;
    const int64_t in_l2 = limits::l2_bytes * 5 / 6 / row_bytes;
    int band = int(std::clamp<int64_t>(in_l2, 1, std::min(most, rows)));
    while (rows % band != 0) band--;
    return band;
}

// Tile rows of a band with which the patch of the matrix that one wave of blocks covers is about square; a cluster of
// blocks takes so many tile rows.
inline int square_band(int tile_rows, int tile_cols, int cluster_rows = 1) {
    const double side = std::sqrt(double(multiprocessors()) * tile_rows * tile_cols) / (tile_rows * cluster_rows);
    int band = 1;
    while (2 * band <= side) band *= 2;
    return band;
}

}  // namespace kittens
