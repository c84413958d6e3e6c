// GPU targets: register tiles and vectors, and which lane holds what.
//
// A 16x16 base tile of a row-layout rt holds 8 elements a lane, in the order of the tensor core's A operand and
// accumulator: element e of lane l is at row l / 4 + 8 * (e / 2 % 2), column 2 * (l % 4) + e % 2 + 8 * (e / 4).
// A col-layout tile is the same with row and column exchanged.
#pragma once

#include "kittens/types/registers.cuh"

namespace kittens {

template <typename T, int Length, vec_layout Layout> struct rv : vec_shape<T, Length, Layout> {
    // Values a lane holds for every 16 (ortho, align), or in all (naive).
    static constexpr int per_base = Layout == vec_layout::ortho ? 2 : 4;
    static constexpr int held = Layout == vec_layout::naive ? (Length + 31) / 32 : Length / base_tile * per_base;

    T data[held];

    // Index of the k-th value that this lane holds; a naive vector's last one may lie past the end.
    kittens_device static int index(int k) {
        if constexpr (Layout == vec_layout::ortho) return k / 2 * 16 + lane() / 4 + 8 * (k % 2);
        else if constexpr (Layout == vec_layout::align) return k / 4 * 16 + 2 * (lane() % 4) + k % 2 + 8 * (k / 2 % 2);
        else return k * 32 + lane();
    }
    kittens_device static bool holds(int k) {
        return Layout != vec_layout::naive || Length % 32 == 0 || index(k) < Length;
    }
    // Lane and position of value i (the lowest lane that holds it).
    kittens_device static int owner(int i) {
        if constexpr (Layout == vec_layout::ortho) return i % 8 * 4;
        else if constexpr (Layout == vec_layout::align) return i % 8 / 2;
        else return i % 32;
    }
    kittens_device static int position(int i) {
        if constexpr (Layout == vec_layout::ortho) return i / 16 * 2 + i / 8 % 2;
        else if constexpr (Layout == vec_layout::align) return i / 16 * 4 + i / 8 % 2 * 2 + i % 2;
        else return i / 32;
    }
};

template <typename T, int Rows, int Cols, layout Layout> struct rt : tile_shape<T, Rows, Cols, Layout> {
    // Base tile (i, j) is data[i][8 * j .. 8 * j + 7].
    alignas(4) T data[Rows / base_tile][8 * (Cols / base_tile)];

    kittens_device static constexpr int at(int j, int e) { return 8 * j + e; }
    kittens_device static int row(int i, int e) {
        return 16 * i + (Layout == layout::row ? lane() / 4 + 8 * (e / 2 % 2) : 2 * (lane() % 4) + e % 2 + 8 * (e / 4));
    }
    kittens_device static int col(int j, int e) {
        return 16 * j + (Layout == layout::row ? 2 * (lane() % 4) + e % 2 + 8 * (e / 4) : lane() / 4 + 8 * (e / 2 % 2));
    }
    // Position of element (i, e)'s row in a col_vec, and of (j, e)'s column in a row_vec.
    kittens_device static constexpr int row_slot(int i, int e) {
        return Layout == layout::row ? 2 * i + e / 2 % 2 : 4 * i + e % 2 + 2 * (e / 4);
    }
    kittens_device static constexpr int col_slot(int j, int e) {
        return Layout == layout::row ? 4 * j + e % 2 + 2 * (e / 4) : 2 * j + e / 2 % 2;
    }
};

// Two elements as the 32-bit register that an instruction takes.
template <typename T> kittens_device uint32_t packed(const T* elements) {
    static_assert(sizeof(T) == 2);
    return *reinterpret_cast<const uint32_t*>(elements);
}
template <typename T> kittens_device void unpack(T* elements, uint32_t value) {
    *reinterpret_cast<uint32_t*>(elements) = value;
}

// f(i, j) for each base tile, and f(i, j, e) for each element that a lane has of it; all unrolled.
template <int Height, int Width, typename F> kittens_device void each_base(F f) {
#pragma unroll
    for (int i = 0; i < Height; i++)
#pragma unroll
        for (int j = 0; j < Width; j++) f(i, j);
}
template <register_tile Tile, typename F> kittens_device void each_held(F f) {
    each_base<Tile::height, Tile::width>([&](int i, int j) {
#pragma unroll
        for (int e = 0; e < 8; e++) f(i, j, e);
    });
}

// f(row, col, element of the first tile, of the second, ...) for every element; tiles of one shape and layout.
template <typename F, register_tile Tile, register_tile... Tiles>
kittens_device void each(F f, Tile& tile, Tiles&... tiles) {
    static_assert(((Tiles::rows == Tile::rows && Tiles::cols == Tile::cols && Tiles::order == Tile::order) && ...),
                  "the tiles of one operation must have one shape and layout; use swap_layout or a sub-tile");
    each_held<Tile>([&](int i, int j, int e) {
        f(Tile::row(i, e), Tile::col(j, e), tile.data[i][Tile::at(j, e)], tiles.data[i][Tile::at(j, e)]...);
    });
}

// f(index, element of the first vector, of the second, ...); vectors of one length and spread.
template <typename F, register_vec Vec, register_vec... Vecs>
kittens_device void each(F f, Vec& vec, Vecs&... vecs) {
    static_assert(((Vecs::length == Vec::length && Vecs::spread == Vec::spread) && ...),
                  "the vectors of one operation must have one length and layout; copy() converts layouts");
#pragma unroll
    for (int k = 0; k < Vec::held; k++)
        if (Vec::holds(k)) f(Vec::index(k), vec.data[k], vecs.data[k]...);
}

// f(row, col, the row's value, elements...): a col_vec of the tiles beside them.
template <typename F, register_vec Vec, register_tile Tile, register_tile... Tiles>
kittens_device void each_with_col_vec(F f, const Vec& vec, Tile& tile, Tiles&... tiles) {
    static_assert(Vec::length == Tile::rows && Vec::spread == Tile::col_vec::spread,
                  "one value a row: declare the vector as the tile's col_vec");
    each_held<Tile>([&](int i, int j, int e) {
        f(Tile::row(i, e), Tile::col(j, e), vec.data[Tile::row_slot(i, e)], tile.data[i][Tile::at(j, e)],
          tiles.data[i][Tile::at(j, e)]...);
    });
}

// f(row, col, the column's value, elements...): a row_vec of the tiles beside them.
template <typename F, register_vec Vec, register_tile Tile, register_tile... Tiles>
kittens_device void each_with_row_vec(F f, const Vec& vec, Tile& tile, Tiles&... tiles) {
    static_assert(Vec::length == Tile::cols && Vec::spread == Tile::row_vec::spread,
                  "one value a column: declare the vector as the tile's row_vec");
    each_held<Tile>([&](int i, int j, int e) {
        f(Tile::row(i, e), Tile::col(j, e), vec.data[Tile::col_slot(j, e)], tile.data[i][Tile::at(j, e)],
          tiles.data[i][Tile::at(j, e)]...);
    });
}

// f(position in a col_vec of the lower row's value, {upper, lower} of the first tile, of the second, ...) for the
// elements of rows r and r + 8 of a tile of 16 rows. One lane holds both.
template <typename T> struct element_couple {
    T &first, &second;
};
template <typename F, register_tile Tile, register_tile... Tiles>
kittens_device void each_row_couple(F f, Tile& tile, Tiles&... tiles) {
    static_assert(Tile::rows == 16 && Tile::order == layout::row, "each_row_couple: 16 rows, in row layout");
#pragma unroll
    for (int j = 0; j < Tile::width; j++)
#pragma unroll
        for (int e = 0; e < 8; e += e % 2 == 0 ? 1 : 3) {
            const int at = Tile::at(j, e);
            f(Tile::row_slot(0, e + 2), element_couple{tile.data[0][at], tile.data[0][at + 2]},
              element_couple{tiles.data[0][at], tiles.data[0][at + 2]}...);
        }
}
// f({left, right} of the first tile, of the second, ...) for the elements of columns c and c + cols / 2.
template <typename F, register_tile Tile, register_tile... Tiles>
kittens_device void each_col_couple(F f, Tile& tile, Tiles&... tiles) {
    static_assert(Tile::width % 2 == 0 && Tile::order == layout::row, "each_col_couple: an even number of base tiles");
#pragma unroll
    for (int i = 0; i < Tile::height; i++)
#pragma unroll
        for (int at = 0; at < 4 * Tile::width; at++)
            f(element_couple{tile.data[i][at], tile.data[i][at + 4 * Tile::width]},
              element_couple{tiles.data[i][at], tiles.data[i][at + 4 * Tile::width]}...);
}

// --- reductions -----------------------------------------------------------------------------------------------
// dst[k] = combine over a tile's row (col_vec) or column (row_vec), lanes apart: each lane has combined its own
// elements only. finish_* combines the lanes. Splitting the two lets a loop finish once, after its last step.
template <typename Combine, register_vec Vec, register_tile Tile>
kittens_device void reduce_rows_partial(Vec& dst, const Tile& src, Combine combine, bool accumulate) {
    static_assert(Vec::length == Tile::rows && Vec::spread == Tile::col_vec::spread,
                  "one value a row: use the tile's col_vec");
    // Several chains a row: one alone would wait for its own arithmetic.
    constexpr int chains = Tile::width < 4 ? 1 : 4;
    Vec partial[chains];
#pragma unroll
    for (int i = 0; i < Tile::height; i++) {
#pragma unroll
        for (int j = 0; j < Tile::width; j++)
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const int slot = Tile::row_slot(i, e), chain = j % chains;
                const bool first = j < chains && (Tile::order == layout::row ? (e == 0 || e == 2) : (e / 2 % 2 == 0));
                const auto value = src.data[i][Tile::at(j, e)];
                if (first && (!accumulate || chain > 0)) partial[chain].data[slot] = value;
                else if (first) partial[chain].data[slot] = combine(dst.data[slot], value);
                else partial[chain].data[slot] = combine(partial[chain].data[slot], value);
            }
    }
#pragma unroll
    for (int slot = 0; slot < Vec::held; slot++) {
#pragma unroll
        for (int n = chains / 2; n > 0; n /= 2)
#pragma unroll
            for (int c = 0; c < n; c++)
                partial[c].data[slot] = combine(partial[c].data[slot], partial[c + n].data[slot]);
        dst.data[slot] = partial[0].data[slot];
    }
}
template <typename Combine, register_vec Vec, register_tile Tile>
kittens_device void reduce_cols_partial(Vec& dst, const Tile& src, Combine combine, bool accumulate) {
    static_assert(Vec::length == Tile::cols && Vec::spread == Tile::row_vec::spread,
                  "one value a column: use the tile's row_vec");
#pragma unroll
    for (int j = 0; j < Tile::width; j++) {
#pragma unroll
        for (int i = 0; i < Tile::height; i++)
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const int slot = Tile::col_slot(j, e);
                const bool first = i == 0 && (Tile::order == layout::row ? (e / 2 % 2 == 0) : (e == 0 || e == 2));
                const auto value = src.data[i][Tile::at(j, e)];
                if (first && !accumulate) dst.data[slot] = value;
                else dst.data[slot] = combine(dst.data[slot], value);
            }
    }
}

template <typename T> kittens_device T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <typename T> kittens_device T shuffle(T value, int source) { return __shfl_sync(0xffffffffu, value, source); }

// Combines the lanes that hold the same value of an ortho (a quad) or align vector (every fourth lane).
template <typename Combine, register_vec Vec>
kittens_device void reduce_finish(Vec& vec, Combine combine) {
    static_assert(Vec::spread != vec_layout::naive);
#pragma unroll
    for (int k = 0; k < Vec::held; k++) {
        if constexpr (Vec::spread == vec_layout::ortho) {
            vec.data[k] = combine(vec.data[k], shuffle_xor(vec.data[k], 1));
            vec.data[k] = combine(vec.data[k], shuffle_xor(vec.data[k], 2));
        } else {
            vec.data[k] = combine(vec.data[k], shuffle_xor(vec.data[k], 4));
            vec.data[k] = combine(vec.data[k], shuffle_xor(vec.data[k], 8));
            vec.data[k] = combine(vec.data[k], shuffle_xor(vec.data[k], 16));
        }
    }
}

// All values of a vector combined, the same in every lane.
template <typename Combine, register_vec Vec>
kittens_device typename Vec::T reduce_all(const Vec& vec, Combine combine, typename Vec::T identity) {
    typename Vec::T value = identity;
#pragma unroll
    for (int k = 0; k < Vec::held; k++)
        if (Vec::holds(k)) value = combine(value, vec.data[k]);
    if constexpr (Vec::spread != vec_layout::ortho) {
        value = combine(value, shuffle_xor(value, 1));
        value = combine(value, shuffle_xor(value, 2));
    }
    if constexpr (Vec::spread != vec_layout::align) {
        value = combine(value, shuffle_xor(value, 4));
        value = combine(value, shuffle_xor(value, 8));
        value = combine(value, shuffle_xor(value, 16));
    }
    return value;
}

// Whether f holds for some value; the same in every lane.
template <typename F, register_vec Vec>
kittens_device bool any(const Vec& vec, F f) {
    bool found = false;
#pragma unroll
    for (int k = 0; k < Vec::held; k++)
        if (Vec::holds(k)) found |= f(to_float(vec.data[k]));
    return __any_sync(0xffffffffu, found);
}

// The values of the vector, and what they are made from, are computed before anything that follows: the assembler,
// which sees no dependence, would move a wait for a multiply ahead of arithmetic that is meant to run under it. Where
// multiplies have ended when they return there is no such wait, and arithmetic runs best between the multiplies.
template <register_vec Vec> kittens_device void settle(const Vec& vec) {
    if constexpr (!limits::multiplies_behind) return;
    if (any(vec, [](float x) { return x == -1.f; })) __syncwarp();  // a branch on the values; either way does nothing
}

// A number that is the same in every lane, as the compiler does not know of one that was loaded or came from a lane's
// index: what depends on it is kept once a warp.
kittens_device int uniform(int x) { return int(__reduce_or_sync(0xffffffffu, unsigned(x))); }
kittens_device bool uniform(bool x) { return __any_sync(0xffffffffu, x); }

// The same object, by an address that the compiler does not know: what follows from it (a multiply's descriptors, one a
// slice) is computed where it is used, instead of before a loop, to be kept in registers.
template <typename T> kittens_device T& unhoisted(T& x) {
    T* address = &x;
    asm("" : "+l"(address));
    return *address;
}

// --- between layouts ------------------------------------------------------------------------------------------
// A vector in another spread: every lane asks the owner for what it holds.
template <register_vec Dst, register_vec Src>
kittens_device void convert_spread(Dst& dst, const Src& src) {
    static_assert(Dst::length == Src::length);
#pragma unroll
    for (int k = 0; k < Dst::held; k++) {
        const int wanted = Dst::index(k) < Dst::length ? Dst::index(k) : 0;
        const int slot = Src::position(wanted);
#pragma unroll
        for (int s = 0; s < Src::held; s++) {
            const auto candidate = shuffle(src.data[s], Src::owner(wanted));
            if (s == slot) dst.data[k] = from_float<typename Dst::T>(to_float(candidate));
        }
    }
}

// dst = src transposed, in the other layout: every lane keeps what it holds, and the registers are renamed.
template <typename T, int R, int C, layout L>
kittens_device void transpose_layout(rt<T, C, R, L == layout::row ? layout::col : layout::row>& dst,
                                     const rt<T, R, C, L>& src) {
    each_held<rt<T, R, C, L>>([&](int i, int j, int e) { dst.data[j][8 * i + e] = src.data[i][8 * j + e]; });
}

// dst[i] = src[0] + ... + src[i], in fp32.
template <typename T, int N>
kittens_device void cumulative_sum(rv<T, N, vec_layout::naive>& dst, const rv<T, N, vec_layout::naive>& src) {
    float before = 0.f;
#pragma unroll
    for (int k = 0; k < rv<T, N, vec_layout::naive>::held; k++) {
        float running = to_float(src.data[k]);
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const float other = __shfl_up_sync(0xffffffffu, running, distance);
            if (lane() >= distance) running += other;
        }
        running += before;
        before = shuffle(running, 31);
        dst.data[k] = from_float<T>(running);
    }
}

// Value i of a vector, the same in every lane. Constant indices cost one shuffle.
template <register_vec Vec> kittens_device float value_at(const Vec& vec, int i) {
    return to_float(shuffle(vec.data[Vec::position(i)], Vec::owner(i)));
}

// dst(r, c) = src((r + by) % 16, c): the rows of a tile of 16, turned. A shuffle and a choice for every two elements;
// nothing where `by` is a template argument and a multiple of 8. dst may be src.
template <bool Shuffled, typename T, int C>
kittens_device void turn_rows(rt<T, 16, C>& dst, const rt<T, 16, C>& src, int by) {
    static_assert(sizeof(T) == 2, "rotate_rows: 16-bit elements; convert first");
    const int row = lane() / 4 + by, from = row % 8 * 4 + lane() % 4;
    const bool swapped = row / 8 % 2 == 1;
#pragma unroll
    for (int j = 0; j < C / 8; j++) {  // eight columns: a register of the upper rows, one of the lower
        uint32_t upper = packed(&src.data[0][4 * j]), lower = packed(&src.data[0][4 * j + 2]);
        if constexpr (Shuffled) upper = shuffle(upper, from), lower = shuffle(lower, from);
        unpack(&dst.data[0][4 * j], swapped ? lower : upper);
        unpack(&dst.data[0][4 * j + 2], swapped ? upper : lower);
    }
}
template <typename T, int C> kittens_device void rotate_rows(rt<T, 16, C>& dst, const rt<T, 16, C>& src, int by) {
    turn_rows<true>(dst, src, by);
}
template <int By, typename T, int C> kittens_device void rotate_rows(rt<T, 16, C>& dst, const rt<T, 16, C>& src) {
    turn_rows<By % 8 != 0>(dst, src, By);
}

// dst(r, c) = src(r, (c + By) % 16): the columns of a tile of 16, turned. A shuffle and a choice for every two
// elements, twice that and a permutation where By is odd; nothing where it is a multiple of 8. dst may be src.
template <int By, typename T, int R> kittens_device void rotate_cols(rt<T, R, 16>& dst, const rt<T, R, 16>& src) {
    static_assert(sizeof(T) == 2, "rotate_cols: 16-bit elements; convert first");
    // Registers of two columns: lane p of a quad holds pair p (columns 2 p, 2 p + 1) and pair p + 4.
    const auto pairs = [&](uint32_t& low, uint32_t& high, int i, int half, int turn) {
        low = packed(&src.data[i][2 * half]), high = packed(&src.data[i][4 + 2 * half]);
        const int pair = lane() % 4 + turn, from = lane() / 4 * 4 + pair % 4;
        if (turn % 4 != 0) low = shuffle(low, from), high = shuffle(high, from);
        if (pair / 4 % 2 == 1) {
            const uint32_t other = low;
            low = high, high = other;
        }
    };
#pragma unroll
    for (int i = 0; i < R / 16; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {  // rows 0 .. 7, rows 8 .. 15
            uint32_t low, high;
            pairs(low, high, i, half, By / 2);
            if constexpr (By % 2 == 1) {
                uint32_t next_low, next_high;
                pairs(next_low, next_high, i, half, By / 2 + 1);
                low = __byte_perm(low, next_low, 0x5432), high = __byte_perm(high, next_high, 0x5432);
            }
            unpack(&dst.data[i][2 * half], low);
            unpack(&dst.data[i][4 + 2 * half], high);
        }
}

// dst = a b of 16-bit tiles, two elements at a time; the product is rounded once, as by the general map.
kittens_device __nv_bfloat162 multiply_pair(__nv_bfloat162 x, __nv_bfloat162 y) { return __hmul2_rn(x, y); }
kittens_device __half2 multiply_pair(__half2 x, __half2 y) { return __hmul2_rn(x, y); }
template <typename T, int R, int C, layout L>
kittens_device void multiply_elements(rt<T, R, C, L>& dst, const rt<T, R, C, L>& a, const rt<T, R, C, L>& b) {
    using two = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat162, __half2>;
#pragma unroll
    for (int i = 0; i < R / 16; i++)
#pragma unroll
        for (int e = 0; e < C / 2; e += 2) {
            const uint32_t x = packed(&a.data[i][e]), y = packed(&b.data[i][e]);
            const two product = multiply_pair(*reinterpret_cast<const two*>(&x), *reinterpret_cast<const two*>(&y));
            unpack(&dst.data[i][e], *reinterpret_cast<const uint32_t*>(&product));
        }
}

// Piece p of base tile (i, j), 8 x 8, in the other layout or transposed: movmatrix turns it across the warp. Piece p of
// a row-layout tile is (row half p % 2, column half p / 2); of a col-layout tile the reverse.
template <register_tile Tile> kittens_device uint32_t turned_piece(const Tile& tile, int i, int j, int p) {
    uint32_t moved;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                 : "=r"(moved)
                 : "r"(packed(&tile.data[i][8 * j + 2 * (p / 2 + 2 * (p % 2))])));
    return moved;
}
// The same matrix in the other layout.
template <typename T, int R, int C, layout L>
kittens_device void swap_layout(rt<T, R, C, L == layout::row ? layout::col : layout::row>& dst,
                                const rt<T, R, C, L>& src) {
    static_assert(sizeof(T) == 2, "swap_layout: 16-bit elements; convert first");
    each_base<R / 16, C / 16>([&](int i, int j) {
#pragma unroll
        for (int p = 0; p < 4; p++) unpack(&dst.data[i][8 * j + 2 * p], turned_piece(src, i, j, p));
    });
}
// dst = src transposed, in the same layout: the lanes keep what they hold, except that each 8x8 piece is turned.
template <typename T, int R, int C, layout L>
kittens_device void transpose(rt<T, C, R, L>& dst, const rt<T, R, C, L>& src) {
    static_assert(sizeof(T) == 2, "transpose: 16-bit elements; convert first");
    each_base<R / 16, C / 16>([&](int i, int j) {
#pragma unroll
        for (int p = 0; p < 4; p++) unpack(&dst.data[j][8 * i + 2 * p], turned_piece(src, i, j, p));
    });
}

// Part (r, c) of a tile, in units of the part. Constant indices cost nothing: the registers are renamed.
template <typename T, int R, int C, int PR, int PC, layout L>
kittens_device void part(rt<T, PR, PC, L>& dst, const rt<T, R, C, L>& src, int r, int c) {
    static_assert(PR <= R && PC <= C, "part: larger than the tile");
    each_held<rt<T, R, C, L>>([&](int i, int j, int e) {
        if (i / (PR / 16) == r && j / (PC / 16) == c)
            dst.data[i % (PR / 16)][8 * (j % (PC / 16)) + e] = src.data[i][8 * j + e];
    });
}
// The reverse: dst's part (r, c) = src.
template <typename T, int R, int C, int PR, int PC, layout L>
kittens_device void place(rt<T, R, C, L>& dst, const rt<T, PR, PC, L>& src, int r, int c) {
    static_assert(PR <= R && PC <= C, "place: larger than the tile");
    each_held<rt<T, R, C, L>>([&](int i, int j, int e) {
        if (i / (PR / 16) == r && j / (PC / 16) == c)
            dst.data[i][8 * j + e] = src.data[i % (PR / 16)][8 * (j % (PC / 16)) + e];
    });
}

}  // namespace kittens
