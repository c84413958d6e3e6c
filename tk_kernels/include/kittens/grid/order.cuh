// Order in which a grid visits the tiles of a matrix. Blocks that run together share L2: what they read together should
// be a compact patch of the output, whose rows of A and columns of B are few.
#pragma once

namespace kittens {

enum class tile_order { supergroup, row_major, hilbert };

struct tile_index {
    int row, col;
};

// Bands of `band` tile rows, each walked column by column: a wave of W blocks reads about band rows of A and W / band
// columns of B instead of W columns.
kittens_host_device tile_index supergroup(int index, int rows, int cols, int band) {
    const int first = index / (band * cols) * band;
    const int height = rows - first < band ? rows - first : band;
    const int within = index - first * cols;
    return {first + within % height, within / height};
}

kittens_host_device tile_index row_major(int index, int cols) { return {index / cols, index % cols}; }

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

kittens_host_device tile_index tile_at(tile_order order, int index, int rows, int cols, int band) {
    if (order == tile_order::supergroup) return supergroup(index, rows, cols, band);
    if (order == tile_order::hilbert) return hilbert(index, rows, cols);
    return row_major(index, cols);
}

}  // namespace kittens
