// Shared tiles and vectors.
#pragma once

#include "kittens/types/layout.cuh"

namespace kittens {

// A tile of rows x cols elements in shared memory.
//
// Columns are cut into chunks of 128, 64 or 32 bytes, the widest that divides a row; a chunk's rows follow one
// another, and chunk follows chunk: [chunk][row][chunk bytes]. On a GPU the 16-byte units of a chunk are permuted
// by a function of the row (the "swizzle"), so that neither a row nor a column of 16-byte units meets in one bank;
// this is the layout that TMA writes and wgmma reads. Index it only through operations.
//
// ParentRows differs from Rows in a sub-tile only: the chunks of a sub-tile are as far apart as its parent's.
template <typename T_, int Rows, int Cols, int ParentRows = Rows>
struct alignas(8 * (Cols * sizeof(T_) % 128 == 0  ? 128
                    : Cols * sizeof(T_) % 64 == 0 ? 64
                                                  : 32)) st {
    using T = T_;
    static constexpr int rows = Rows;
    static constexpr int cols = Cols;
    static constexpr int parent_rows = ParentRows;
    static constexpr int row_bytes = Cols * int(sizeof(T));
    static constexpr int chunk_bytes = row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : 32;
    static constexpr int chunk_cols = chunk_bytes / int(sizeof(T));
    static constexpr int chunks = row_bytes / chunk_bytes;
    static constexpr int chunk_stride = ParentRows * chunk_bytes;  // bytes from a chunk to the next
    static constexpr int bytes = Rows * row_bytes;                 // what a TMA load of the tile delivers
    static_assert(Rows % base_tile == 0, "st: rows must be a multiple of 16");
    static_assert(Cols % base_tile == 0, "st: cols must be a multiple of 16");
    static_assert(row_bytes % 32 == 0, "st: a row must be a multiple of 32 bytes; widen the tile");

    T data[Rows * Cols];

    // Bytes to an element, before a GPU permutes them within the chunk's row.
    kittens_host_device static constexpr int offset(int row, int col) {
        return col / chunk_cols * chunk_stride + row * chunk_bytes + col % chunk_cols * int(sizeof(T));
    }

    // The same tile type standing alone: what a tensor map is made for.
    using whole = st<T, Rows, Cols>;
};

// Sub-tile (r, c) of a tile, in units of itself: whole chunks of columns and a multiple of 16 rows, in place.
template <int Rows, int Cols, typename T, int R, int C, int P>
kittens_device st<T, Rows, Cols, P>& subtile(st<T, R, C, P>& tile, int r, int c) {
    using parent = st<T, R, C, P>;
    using child = st<T, Rows, Cols, P>;
    static_assert(Rows <= R && Cols <= C, "subtile: larger than its parent");
    static_assert(child::chunk_bytes == parent::chunk_bytes,
                  "subtile: cols must keep the parent's chunk width (a multiple of 128 bytes if the parent's is)");
    auto* base = reinterpret_cast<unsigned char*>(tile.data);
    return *reinterpret_cast<child*>(base + r * Rows * parent::chunk_bytes + c * child::chunks * parent::chunk_stride);
}

// A vector of Length elements in shared memory, contiguous.
template <typename T_, int Length>
struct alignas(128) sv {
    using T = T_;
    static constexpr int length = Length;
    static constexpr int bytes = Length * int(sizeof(T));
    static_assert(Length % base_tile == 0, "sv: length must be a multiple of 16");

    T data[Length];

    using whole = sv;
};

// One for each warp of a warpgroup, or of the block's first so many, which needs no barrier before it uses its own.
template <typename X, int Groups = 1> struct per_warp {
    X of_warp[Groups * warpgroup_warps];

    kittens_device X& own() { return of_warp[warp_index() % (Groups * warpgroup_warps)]; }
};

template <typename X> inline constexpr bool is_st = false;
template <typename T, int R, int C, int P> inline constexpr bool is_st<st<T, R, C, P>> = true;
template <typename X> inline constexpr bool is_sv = false;
template <typename T, int L> inline constexpr bool is_sv<sv<T, L>> = true;
template <typename X>
concept shared_tile = is_st<X>;
template <typename X>
concept shared_vec = is_sv<X>;

// An element of a shared tile, and the bytes to it, which a target says.
template <shared_tile Tile> kittens_device uint32_t shared_offset(int row, int col);
template <typename Tile>
    requires shared_tile<std::remove_const_t<Tile>>
kittens_device auto& element(Tile& tile, int row, int col) {
    using bytes = std::conditional_t<std::is_const_v<Tile>, const unsigned char, unsigned char>;
    using T = std::conditional_t<std::is_const_v<Tile>, const typename Tile::T, typename Tile::T>;
    return *reinterpret_cast<T*>(reinterpret_cast<bytes*>(tile.data) +
                                 shared_offset<std::remove_const_t<Tile>>(row, col));
}

// The rows, in a shared or global tile, of base-tile row i of a warp's register tile: its own follow one another; of a
// warpgroup's tile of 64 h rows each of its warps has 16 of every 64.
struct warp_rows {
    kittens_device static int base(int i) { return 16 * i; }
    static constexpr int share = 1;
};
struct warpgroup_rows {
    kittens_device static int base(int i) { return 64 * i + 16 * warp_in_group(); }
    static constexpr int share = warpgroup_warps;
};
namespace warpgroup {
// Row of the warpgroup's tile that is row `row` of this warp's register tile.
kittens_device int row(int row) { return row / 16 * 64 + 16 * warp_in_group() + row % 16; }
}  // namespace warpgroup

template <int R, int C> using st_bf = st<bf16, R, C>;
template <int R, int C> using st_hf = st<half, R, C>;
template <int R, int C> using st_fl = st<float, R, C>;
template <int L> using sv_bf = sv<bf16, L>;
template <int L> using sv_hf = sv<half, L>;
template <int L> using sv_fl = sv<float, L>;

}  // namespace kittens
