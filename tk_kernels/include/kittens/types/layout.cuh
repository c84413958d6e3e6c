// Words shared by all tile types.
#pragma once

#include <cstdint>
#include <type_traits>

namespace kittens {

// Which way a register tile's fragments run. A row-layout tile is an A operand, or the accumulator, of a warp's
// matrix multiply; a col-layout tile is a B operand. Per-row and per-column vectors of a tile have layouts of
// their own (`rt::col_vec` holds one value a row, `rt::row_vec` one a column).
enum class layout { row, col };

// How a register vector is spread over the lanes of a warp:
//   ortho: value i is held by the lanes that hold row i of a row-layout tile (2 values a lane for every 16)
//   align: value i is held by the lanes that hold column i of a row-layout tile (4 values a lane for every 16)
//   naive: value i is held by lane i % 32 alone; for vectors that never meet a tile
enum class vec_layout { ortho, align, naive };

inline constexpr int warp_threads = 32;
inline constexpr int warpgroup_warps = 4;
inline constexpr int base_tile = 16;

// Extent that is known only at run time, in `gl`.
inline constexpr int dynamic = -1;

// Where a tile lies in a global tensor, in units of the tile that is moved: coord{b, d, r, c} addresses row
// r * tile.rows and column c * tile.cols of matrix (b, d). For vectors c is in units of the vector's length. An
// element_coord is the same in elements: the upper left corner of the tile.
template <bool InElements> struct coordinates {
    int b = 0, d = 0, r = 0, c = 0;
};
using coord = coordinates<false>;
using element_coord = coordinates<true>;

// The corner, in elements, of what X says: a tile or a vector.
template <typename X> kittens_host_device element_coord corner(element_coord at) { return at; }
template <typename X> kittens_host_device element_coord corner(coord at) {
    if constexpr (requires { X::length; }) return {at.b, at.d, at.r, at.c * X::length};
    else return {at.b, at.d, at.r * X::rows, at.c * X::cols};
}
template <typename At>
concept coordinate = std::is_same_v<At, coord> || std::is_same_v<At, element_coord>;

}  // namespace kittens
