// GPU targets: synchronous moves between registers, shared and global memory, at warp and warpgroup scope.
#pragma once

#include "kittens/target/gpu/l2.cuh"
#include "kittens/target/gpu/registers.cuh"
#include "kittens/types/global.cuh"

namespace kittens {

// Byte offset of an element in a shared tile, swizzled: the 16-byte unit within a chunk is xored with row bits.
template <shared_tile Tile> kittens_device uint32_t shared_offset(int row, int col) {
    constexpr int unit_mask = Tile::chunk_bytes / 16 - 1;   // 7, 3, 1
    constexpr int rows_per_line = 128 / Tile::chunk_bytes;  // rows in 128 bytes: 1, 2, 4
    return uint32_t(Tile::offset(row, col)) ^ ((row / rows_per_line & unit_mask) << 4);
}
template <shared_tile Tile> kittens_device uint32_t shared_address(const Tile& tile, int row, int col) {
    return shared_address(static_cast<const void*>(tile.data)) + shared_offset<Tile>(row, col);
}

// The two fp32 elements that a lane holds side by side, e and e + 1 of base tile (i, j), in a shared tile whose rows
// this warp's begin at `first`; `flip` is xored to the byte within a chunk. Only the place within a row depends on the
// lane in a way that an instruction's constant offset cannot express.
template <shared_tile Tile, register_tile Reg, typename T>
kittens_device float2* element_pair(T* data, int first, int j, int e, int flip = 0) {
    constexpr int rows_per_line = 128 / Tile::chunk_bytes;
    const int row = first + Reg::row(0, e), col = Reg::col(j, e);
    const int within = col % Tile::chunk_cols * 4 ^ (row / rows_per_line & (Tile::chunk_bytes / 16 - 1)) << 4 ^ flip;
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<float*>(data));
    return reinterpret_cast<float2*>(bytes + col / Tile::chunk_cols * Tile::chunk_stride + row * Tile::chunk_bytes +
                                     within);
}

// Four 8x8 matrices of 16-bit elements from shared memory, each row from an address that one lane gives; transposed,
// its columns.
template <bool Transposed> kittens_device void load_matrices(uint32_t (&piece)[4], uint32_t from) {
    if constexpr (Transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                     : "r"(from)
                     : "memory");
}

// A base tile's four pieces: two neighbours each, in one register.
template <bool Transposed, typename T> kittens_device void load_pieces(T* elements, uint32_t from) {
    uint32_t piece[4];
    load_matrices<Transposed>(piece, from);
#pragma unroll
    for (int p = 0; p < 4; p++) unpack(elements + 2 * p, piece[p]);
}
// The same of what is stored to elements of 16 bits, whatever the registers' type: a float pair is rounded on the way.
template <typename To, typename T> kittens_device void pack_pieces(uint32_t (&piece)[4], const T* elements) {
#pragma unroll
    for (int p = 0; p < 4; p++) {
        const T* two = elements + 2 * p;
        if constexpr (std::is_same_v<T, To>) piece[p] = packed(two);
        else piece[p] = pack<To>(to_float(two[0]), to_float(two[1]));
    }
}

template <typename RowMap, register_tile Dst, shared_tile Src>
kittens_device void load_tile(Dst& dst, const Src& src, site) {
    using T = typename Dst::T;
    static_assert(Src::rows == Dst::rows * RowMap::share && Src::cols == Dst::cols,
                  "load: the shared tile must have the register tile's shape (4x its rows at warpgroup scope)");
    if constexpr (sizeof(T) == 2 && std::is_same_v<T, typename Src::T>) {
        constexpr bool row_major = Dst::order == layout::row;
        const int half_a = 8 * (lane() / 8 % 2), half_b = 8 * (lane() / 16);
        each_base<Dst::height, Dst::width>([&](int i, int j) {
            const uint32_t from = shared_address(src, RowMap::base(i) + lane() % 8 + (row_major ? half_a : half_b),
                                                 16 * j + (row_major ? half_b : half_a));
            load_pieces<!row_major>(&dst.data[i][8 * j], from);
        });
    } else if constexpr (std::is_same_v<typename Src::T, float> && Dst::order == layout::row) {
        each_base<Dst::height, Dst::width>([&](int i, int j) {
#pragma unroll
            for (int e = 0; e < 8; e += 2) {
                const float2 two = *element_pair<Src, Dst>(src.data, RowMap::base(i), j, e);
                dst.data[i][8 * j + e] = from_float<T>(two.x);
                dst.data[i][8 * j + e + 1] = from_float<T>(two.y);
            }
        });
    } else {
        each_held<Dst>([&](int i, int j, int e) {
            dst.data[i][8 * j + e] =
                from_float<T>(to_float(element(src, RowMap::base(i) + Dst::row(0, e), Dst::col(j, e))));
        });
    }
}

// 16-bit destinations take matrices of 8x8. 8-bit ones: two lanes exchange pairs of columns, so that each stores four
// neighbours.
template <typename RowMap, shared_tile Dst, register_tile Src>
kittens_device void store_tile(Dst& dst, const Src& src, site) {
    using T = typename Dst::T;
    static_assert(Dst::rows == Src::rows * RowMap::share && Dst::cols == Src::cols,
                  "store: the shared tile must have the register tile's shape (4x its rows at warpgroup scope)");
    if constexpr (sizeof(T) == 2) {
        constexpr bool row_major = Src::order == layout::row;
        const int half_a = 8 * (lane() / 8 % 2), half_b = 8 * (lane() / 16);
        each_base<Src::height, Src::width>([&](int i, int j) {
            const uint32_t to = shared_address(dst, RowMap::base(i) + lane() % 8 + (row_major ? half_a : half_b),
                                               16 * j + (row_major ? half_b : half_a));
            uint32_t piece[4];
            pack_pieces<T>(piece, &src.data[i][8 * j]);
            store_matrices<!row_major>(to, piece);
        });
    } else if constexpr (std::is_same_v<T, e4m3> && Src::order == layout::row) {
        const bool odd = lane() % 2 == 1;
        each_base<Src::height, Src::width>([&](int i, int j) {
            // Columns 2 q and 2 q + 1, and those 8 further on, of rows r (lower half of the word) and r + 8.
            uint32_t near = 0, far = 0;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const auto* x = &src.data[i][8 * j + 2 * h];
                near |= pack<e4m3>(to_float(x[0]), to_float(x[1])) << 16 * h;
                far |= pack<e4m3>(to_float(x[4]), to_float(x[5])) << 16 * h;
            }
            const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? near : far, 1);
            const uint32_t first = odd ? got : near, second = odd ? far : got;
            const int row = RowMap::base(i) + lane() / 4, col = 16 * j + (odd ? 8 : 0) + lane() % 4 / 2 * 4;
            *reinterpret_cast<uint32_t*>(&element(dst, row, col)) = __byte_perm(first, second, 0x5410);
            *reinterpret_cast<uint32_t*>(&element(dst, row + 8, col)) = __byte_perm(first, second, 0x7632);
        });
    } else if constexpr (Src::order == layout::row) {
        // Rows r and r + 1 would meet in the same banks: every other row stores its base tiles in swapped order.
        constexpr bool swap = Dst::chunk_bytes == 128;
        const bool other = swap && lane() / 4 % 2 == 1;
        each_base<Src::height, Src::width>([&](int i, int j) {
#pragma unroll
            for (int e = 0; e < 8; e += 2) {
                const auto* mine = &src.data[i][8 * j + e];
                const auto* swapped = &src.data[i][8 * (swap ? j ^ 1 : j) + e];
                *element_pair<Dst, Src>(dst.data, RowMap::base(i), j, e, other ? 64 : 0) =
                    make_float2(to_float(other ? swapped[0] : mine[0]), to_float(other ? swapped[1] : mine[1]));
            }
        });
    } else {
        each_held<Src>([&](int i, int j, int e) {
            element(dst, RowMap::base(i) + Src::row(0, e), Src::col(j, e)) =
                from_float<T>(to_float(src.data[i][8 * j + e]));
        });
    }
}

// Elements past the tensor's end load as zero and are not stored.
template <typename RowMap, register_tile Dst, global_tensor Src>
kittens_device void load_tile(Dst& dst, const Src& src, element_coord at, site) {
    using T = typename Dst::T;
    each_held<Dst>([&](int i, int j, int e) {
        const int row = at.r + RowMap::base(i) + Dst::row(0, e), col = at.c + Dst::col(j, e);
        const bool inside = row < src.rows() && col < src.cols();
        dst.data[i][8 * j + e] = from_float<T>(inside ? to_float(src.row(at.b, at.d, row)[col]) : 0.f);
    });
}
template <typename RowMap, global_tensor Dst, register_tile Src>
kittens_device void store_tile(const Dst& dst, const Src& src, element_coord at, site) {
    each_held<Src>([&](int i, int j, int e) {
        const int row = at.r + RowMap::base(i) + Src::row(0, e), col = at.c + Src::col(j, e);
        if (row < dst.rows() && col < dst.cols())
            dst.row(at.b, at.d, row)[col] = from_float<typename Dst::T>(to_float(src.data[i][8 * j + e]));
    });
}

// Elements that a thread keeps side by side in a packed tile. Four cost least. But before sm_90 memory adds one element
// a lane: those of a warp's tile, the only one that is added to, lie side by side over the lanes, a line at a time.
template <int Warps> constexpr int unit_floats = Warps == 1 ? limits::added_floats : 4;
template <int Warps> using packed_floats = std::conditional_t<unit_floats<Warps> == 4, float4, float>;

// The u-th unit of each thread, in a tile that `Warps` keep packed: whole lines of memory and no bank conflict.
template <int Warps, typename T> kittens_device auto* packed_unit(T* tile, int u) {
    constexpr int threads = Warps * warp_threads;
    const int rank = threadIdx.x % threads;  // signed, as u is: one address, and the units at constant distances
    return reinterpret_cast<packed_floats<Warps>*>(const_cast<float*>(tile)) + threads * u + rank;
}
// Calls f(u, the elements that the u-th unit has of a register tile).
template <int Warps, typename Tile, typename F> kittens_device void each_unit(Tile& tile, F f) {
    constexpr int in_row = 8 * Tile::width / unit_floats<Warps>;
#pragma unroll
    for (int u = 0; u < in_row * Tile::height; u++) f(u, &tile.data[u / in_row][unit_floats<Warps> * (u % in_row)]);
}
kittens_device void set_unit(float4& unit, const float* from) {
    unit = make_float4(from[0], from[1], from[2], from[3]);
}
kittens_device void set_unit(float& unit, const float* from) { unit = *from; }
template <int Warps, register_tile Src> kittens_device void store_units(float* tile, const Src& src) {
    each_unit<Warps>(src, [&](int u, const float* from) { set_unit(*packed_unit<Warps>(tile, u), from); });
}
template <int Warps, register_tile Dst> kittens_device void load_units(Dst& dst, const float* tile) {
    each_unit<Warps>(dst, [&](int u, float* to) {
        const packed_floats<Warps> unit = *packed_unit<Warps>(tile, u);
        if constexpr (unit_floats<Warps> == 4) to[0] = unit.x, to[1] = unit.y, to[2] = unit.z, to[3] = unit.w;
        else to[0] = unit;
    });
}
template <register_tile Src> kittens_device void add_units(float* tile, const Src& src) {
    each_unit<1>(src, [&](int u, const float* from) {
        packed_floats<1> unit;
        set_unit(unit, from);
        atomicAdd(packed_unit<1>(tile, u), unit);
    });
}

// --- warp scope -----------------------------------------------------------------------------------------------
template <typename RowMap, register_tile Dst, global_tensor Src>
kittens_device void load_packed_tile(Dst& dst, const Src& src, coord at, site) {
    load_units<RowMap::share>(dst, packed_tile<Dst, RowMap::share>(src, at));
}
template <typename RowMap, global_tensor Dst, register_tile Src>
kittens_device void store_packed_tile(const Dst& dst, const Src& src, coord at, site) {
    store_units<RowMap::share>(packed_tile<Src, RowMap::share>(dst, at), src);
}
// Added to what is there, each element atomically.
template <global_tensor Dst, register_tile Src>
kittens_device void add_packed(const Dst& dst, const Src& src, coord at, site = kittens_here) {
    add_units(packed_tile<Src, 1>(dst, at), src);
}
template <shared_vec Dst, register_tile Src>
kittens_device void store_packed(Dst& dst, const Src& src, site = kittens_here) {
    static_assert(Dst::length == Src::rows * Src::cols && sizeof(typename Dst::T) == 4 && sizeof(typename Src::T) == 4,
                  "store_packed: an fp32 vector with as many elements as the tile");
    store_units<1>(dst.data, src);
}

template <register_vec Dst, shared_vec Src>
kittens_device void load(Dst& dst, const Src& src, site = kittens_here) {
    static_assert(Dst::length == Src::length, "load: vectors of one length");
    each([&](int i, auto& x) { x = from_float<typename Dst::T>(to_float(src.data[i])); }, dst);
}
template <shared_vec Dst, register_vec Src>
kittens_device void store(Dst& dst, const Src& src, site = kittens_here) {
    static_assert(Dst::length == Src::length, "store: vectors of one length");
    each(
        [&](int i, auto& x) {
            if (lane() == Src::owner(i)) dst.data[i] = from_float<typename Dst::T>(to_float(x));
        },
        src);
}
template <register_vec Dst, global_tensor Src>
kittens_device void load_vec(Dst& dst, const Src& src, element_coord at, site) {
    each(
        [&](int i, auto& x) {
            x = from_float<typename Dst::T>(at.c + i < src.cols() ? to_float(src.row(at.b, at.d, at.r)[at.c + i])
                                                                  : 0.f);
        },
        dst);
}
// Two elements at a time, of a tensor whose rows begin at multiples of 4 bytes, from an even column on; where it has an
// odd number of columns, the element behind a row's last one is read too. Columns past the tensor's end load as zero,
// rows as its last one.
template <register_tile Dst, global_tensor Src>
kittens_device void load_pairs(Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    using T = typename Dst::T;
    static_assert(
        sizeof(T) == 2 && std::is_same_v<T, std::remove_const_t<typename Src::T>> && Dst::order == layout::row,
        "load_pairs: 16-bit elements of one type, in row layout");
    const int left = src.cols() - at.c - Dst::col(0, 0);
#pragma unroll
    for (int i = 0; i < Dst::height; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {  // rows 0 .. 7, rows 8 .. 15
            const int row = min(at.r + Dst::row(i, 2 * half), src.rows() - 1);
            const auto* from = reinterpret_cast<const uint32_t*>(src.row(at.b, at.d, row) + at.c + Dst::col(0, 0));
#pragma unroll
            for (int j = 0; j < 2 * Dst::width; j++)
                unpack(&dst.data[i][4 * j + 2 * half], 8 * j < left ? from[4 * j] : 0);
        }
}
template <register_vec Dst, global_tensor Src>
kittens_device void load_pairs(Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    using T = std::remove_const_t<typename Src::T>;
    static_assert(sizeof(T) == 2 && Dst::spread == vec_layout::align,
                  "load_pairs: 16-bit elements, and the row_vec of a tile in row layout");
    const int first = Dst::index(0), left = src.cols() - at.c - first;
    const auto* from = reinterpret_cast<const uint32_t*>(src.row(at.b, at.d, at.r) + at.c + first);
#pragma unroll
    for (int k = 0; k < Dst::held; k += 2) {
        alignas(4) T two[2];
        unpack(two, 4 * k < left ? from[2 * k] : 0);
        dst.data[k] = from_float<typename Dst::T>(to_float(two[0]));
        dst.data[k + 1] = from_float<typename Dst::T>(to_float(two[1]));
    }
}
// dst[i] = element (at.r + i, at.c): a column; rows past the tensor's end load as zero.
template <register_vec Dst, global_tensor Src>
kittens_device void load_column(Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    each(
        [&](int i, auto& x) {
            x = from_float<typename Dst::T>(at.r + i < src.rows() ? to_float(src.row(at.b, at.d, at.r + i)[at.c])
                                                                  : 0.f);
        },
        dst);
}
// One element, which lies inside the tensor; the same in every lane.
template <global_tensor Src> kittens_device float load_value(const Src& src, element_coord at, site = kittens_here) {
    return to_float(src.row(at.b, at.d, at.r)[at.c]);
}
// One element of a table: a page's number, a length. It lies inside the tensor; the same in every lane.
template <global_tensor Src> kittens_device int load_integer(const Src& src, element_coord at, site = kittens_here) {
    static_assert(std::is_same_v<std::remove_const_t<typename Src::T>, int>, "load_integer: a tensor of int");
    return src.row(at.b, at.d, at.r)[at.c];
}
// Rows that lie anywhere: row i of the tile is row `row_of(i)` of a matrix of as many columns, whose rows begin at
// multiples of 4 bytes. Where that is negative, zeros are read and nothing is written.
template <register_tile Dst, global_tensor Src, typename RowOf>
kittens_device void load_rows(Dst& dst, const Src& src, RowOf row_of, site = kittens_here) {
    using T = typename Dst::T;
    static_assert(
        sizeof(T) == 2 && std::is_same_v<T, std::remove_const_t<typename Src::T>> && Dst::order == layout::row,
        "load_rows: 16-bit elements of one type, in row layout");
#pragma unroll
    for (int i = 0; i < Dst::height; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {  // rows 0 .. 7, rows 8 .. 15
            const int row = row_of(Dst::row(i, 2 * half));
            const auto* from = reinterpret_cast<const uint32_t*>(src.row(0, 0, row < 0 ? 0 : row) + Dst::col(0, 0));
#pragma unroll
            for (int j = 0; j < 2 * Dst::width; j++) unpack(&dst.data[i][4 * j + 2 * half], row < 0 ? 0 : from[4 * j]);
        }
}
template <global_tensor Dst, register_tile Src, typename RowOf>
kittens_device void store_rows(const Dst& dst, const Src& src, RowOf row_of, site = kittens_here) {
    using T = typename Dst::T;
    static_assert(sizeof(T) == 2 && Src::order == layout::row, "store_rows: to 16-bit elements, from row layout");
#pragma unroll
    for (int i = 0; i < Src::height; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = row_of(Src::row(i, 2 * half));
            if (row < 0) continue;
            auto* to = reinterpret_cast<uint32_t*>(dst.row(0, 0, row) + Src::col(0, 0));
#pragma unroll
            for (int j = 0; j < 2 * Src::width; j++) {
                const auto* two = &src.data[i][4 * j + 2 * half];
                to[4 * j] = pack<T>(to_float(two[0]), to_float(two[1]));
            }
        }
}
// So many rows of a tile, from row `first` on, and shared vectors as long as its rows. The other rows load as zeros,
// and are not stored.
template <register_tile Dst, shared_vec Src>
kittens_device void load_rows(Dst& dst, const Src* rows, int count, int first = 0, site = kittens_here) {
    static_assert(sizeof(typename Dst::T) == 2 && std::is_same_v<typename Dst::T, typename Src::T> &&
                      Dst::order == layout::row && Dst::cols == Src::length,
                  "load_rows: 16-bit elements of one type, vectors as long as the tile's rows");
#pragma unroll
    for (int i = 0; i < Dst::height; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = Dst::row(i, 2 * half) - first;
            const bool given = row >= 0 && row < count;
            const auto* from = reinterpret_cast<const uint32_t*>(rows[given ? row : 0].data + Dst::col(0, 0));
#pragma unroll
            for (int j = 0; j < 2 * Dst::width; j++) unpack(&dst.data[i][4 * j + 2 * half], given ? from[4 * j] : 0);
        }
}
template <shared_vec Dst, register_tile Src>
kittens_device void store_rows(Dst* rows, const Src& src, int count, int first = 0, site = kittens_here) {
    static_assert(std::is_same_v<typename Dst::T, float> && std::is_same_v<typename Src::T, float> &&
                      Src::order == layout::row && Src::cols == Dst::length,
                  "store_rows: fp32, vectors as long as the tile's rows");
#pragma unroll
    for (int i = 0; i < Src::height; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = Src::row(i, 2 * half) - first;
            if (row < 0 || row >= count) continue;
            auto* to = reinterpret_cast<float2*>(rows[row].data + Src::col(0, 0));
#pragma unroll
            for (int j = 0; j < 2 * Src::width; j++) {
                const float* two = &src.data[i][4 * j + 2 * half];
                to[4 * j] = make_float2(two[0], two[1]);
            }
        }
}
// The same as `store` where all columns lie inside the tensor and its rows begin at multiples of 8 bytes: two elements
// at a time.
template <global_tensor Dst, register_tile Src>
kittens_device void store_pairs(const Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    static_assert(
        std::is_same_v<typename Dst::T, float> && std::is_same_v<typename Src::T, float> && Src::order == layout::row,
        "store_pairs: fp32, from row layout");
#pragma unroll
    for (int i = 0; i < Src::height; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {  // rows 0 .. 7, rows 8 .. 15
            const int row = at.r + Src::row(i, 2 * half);
            if (row >= dst.rows()) continue;
            auto* to = reinterpret_cast<float2*>(dst.row(at.b, at.d, row) + at.c + Src::col(0, 0));
#pragma unroll
            for (int j = 0; j < 2 * Src::width; j++) {
                const float* two = &src.data[i][4 * j + 2 * half];
                to[4 * j] = make_float2(two[0], two[1]);
            }
        }
}
// Element i of the vector goes to element `at(i)` of a tensor's first row, or nowhere where that is negative.
template <global_tensor Dst, register_vec Src, typename At>
kittens_device void store_elements(const Dst& dst, const Src& src, At at, site = kittens_here) {
    each(
        [&](int i, auto& x) {
            const int to = at(i);
            if (lane() == Src::owner(i) && to >= 0) dst.row(0, 0, 0)[to] = from_float<typename Dst::T>(to_float(x));
        },
        src);
}
// A row of a table of int whose entries are asked for one by one, in any order: 32 are read at a time, a lane each.
// What lies behind an entry that is asked for is read too, and not used.
template <global_tensor Src> struct integer_row {
    const int* entries;
    int count, first = -warp_threads, held = 0;

    kittens_device integer_row(const Src& src, int row, site = kittens_here)
        : entries(src.row(0, 0, row)), count(src.cols()) {}
    // Starts to read entry i and the 31 behind it, and does not wait.
    kittens_device void bring(int i, site = kittens_here) {
        first = i;
        held = first + lane() < count ? entries[first + lane()] : 0;
    }
    kittens_device int at(int i, site = kittens_here) {
        if (i < first || i >= first + warp_threads) bring(i);
        return __shfl_sync(0xffffffffu, held, i - first);
    }
    // One of those that `bring(0)` has read last.
    kittens_device int brought(int i, site = kittens_here) const { return __shfl_sync(0xffffffffu, held, i); }
};
// Asks for a tile of Rows x Cols to be brought into the L2 cache; nothing past the tensor's end.
template <int Rows, int Cols, global_tensor Src> kittens_device void prefetch_tile(const Src& src, element_coord at) {
    constexpr int sector = 32 / sizeof(typename Src::T), across = Cols / sector;
    static_assert(Cols % sector == 0 && warp_threads % across == 0,
                  "prefetch_tile: rows of 32 bytes times a power of two");
    const int col = at.c + lane() % across * sector;
#pragma unroll 4
    for (int row = at.r + lane() / across; row < at.r + Rows; row += warp_threads / across)
        if (row < src.rows() && col < src.cols())
            asm volatile("prefetch.global.L2 [%0];" ::"l"(src.row(at.b, at.d, row) + col));
}
// Asks for a row's (a column's) next Length elements to be brought into the L2 cache; nothing past the tensor's end.
template <int Length, global_tensor Src> kittens_device void prefetch_row(const Src& src, element_coord at) {
    constexpr int sector = 32 / sizeof(typename Src::T);
#pragma unroll
    for (int i = 0; i < Length; i += 32 * sector) {
        const int col = at.c + i + lane() * sector;
        if (col < src.cols() && col < at.c + Length)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(src.row(at.b, at.d, at.r) + col));
    }
}
template <int Length, global_tensor Src> kittens_device void prefetch_column(const Src& src, element_coord at) {
#pragma unroll
    for (int i = 0; i < Length; i += 32)
        if (at.r + i + lane() < src.rows())
            asm volatile("prefetch.global.L2 [%0];" ::"l"(src.row(at.b, at.d, at.r + i + lane()) + at.c));
}
template <global_tensor Dst, register_vec Src>
kittens_device void store_vec(const Dst& dst, const Src& src, element_coord at, site) {
    each(
        [&](int i, auto& x) {
            if (lane() == Src::owner(i) && at.c + i < dst.cols())
                dst.row(at.b, at.d, at.r)[at.c + i] = from_float<typename Dst::T>(to_float(x));
        },
        src);
}

// --- groups of warps ------------------------------------------------------------------------------------------
// Moves between global and shared memory made by the threads themselves: 16 bytes a thread where the tensor is aligned
// for it, element by element at its edge.
template <int Warps> struct group {
    static constexpr int threads = Warps * warp_threads;
    kittens_device static int rank() { return threadIdx.x % threads; }

    template <shared_tile Tile, global_tensor Gl> kittens_device static bool wide(const Gl& global, element_coord at) {
        if constexpr (!std::is_same_v<typename Tile::T, typename Gl::T>) return false;
        constexpr int unit = 16 / sizeof(typename Tile::T);
        return (reinterpret_cast<uintptr_t>(global.data) % 16 | global.stride[0] % unit | global.stride[1] % unit |
                global.stride[2] % unit | at.c % unit) == 0;
    }
    // f(row, col, whole) for each 16-byte unit of the tile that starts inside the tensor; whole: it also ends there.
    template <shared_tile Tile, global_tensor Gl, typename F>
    kittens_device static void units(const Gl& global, element_coord at, F f) {
        constexpr int unit = 16 / sizeof(typename Tile::T), row_units = Tile::cols / unit;
        const bool aligned = wide<Tile>(global, at);
#pragma unroll 4
        for (int k = rank(); k < Tile::rows * row_units; k += threads) {
            const int row = k / row_units, col = k % row_units * unit;
            f(row, col, aligned && at.r + row < global.rows() && at.c + col + unit <= global.cols());
        }
    }

    template <shared_tile Dst, global_tensor Src, coordinate At>
    kittens_device static void load(Dst& dst, const Src& src, At place, site = kittens_here) {
        const element_coord at = corner<Dst>(place);
        units<Dst>(src, at, [&](int row, int col, bool whole) {
            const auto* from = src.row(at.b, at.d, at.r + row) + at.c + col;
            if (whole) {
                *reinterpret_cast<uint4*>(&element(dst, row, col)) = *reinterpret_cast<const uint4*>(from);
                return;
            }
#pragma unroll 1
            for (int i = 0; i < 16 / int(sizeof(typename Dst::T)); i++) {
                const bool inside = at.r + row < src.rows() && at.c + col + i < src.cols();
                element(dst, row, col + i) = from_float<typename Dst::T>(inside ? to_float(from[i]) : 0.f);
            }
        });
    }
    // Starts a copy, in units of 16 bytes, each thread its share. For the warp that calls it, it is done after
    // copy_commit and copy_wait. Elements past the tensor's end are zero. A gl that names the tile was checked for
    // whole units.
    template <typename Dst, global_tensor Src, coordinate At>
    kittens_device static void copy_async(Dst& dst, const Src& src, At at, site = kittens_here) {
        static_assert(std::is_same_v<typename Dst::T, std::remove_const_t<typename Src::T>>,
                      "asynchronous copies do not convert: the tile and the tensor need one element type");
        static_assert(Src::template has_map<Dst>, "copy_async: name the tile or vector in the gl's type list");
        start_copy(dst, src, corner<Dst>(at));
    }
    template <shared_tile Dst, global_tensor Src>
    kittens_device static void start_copy(Dst& dst, const Src& src, element_coord at) {
        constexpr int unit = 16 / sizeof(typename Dst::T), row_units = Dst::cols / unit;
        static_assert(threads % row_units == 0, "copy_async: the group's threads take whole rows");
        constexpr int step = threads / row_units;  // rows from a thread's unit to its next
        const int first = rank() / row_units, col = rank() % row_units * unit;
        asm volatile("" : "+r"(at.r));  // made for each copy: held in a loop, addresses take registers
        const auto* from = src.row(at.b, at.d, at.r + first);
        asm volatile("" : "+l"(from));  // or the column would be held beside it, in 64 bits
        from += at.c + col;
        const int left = src.rows() - at.r - first, bytes = bytes_left<Src>(src.cols() - at.c - col);
        const uint32_t to = shared_address(dst, first, col);
        const auto place = [&](int row) {  // the swizzle comes back after 8 rows: then one address serves all
            return step % 8 == 0 ? to + row * Dst::chunk_bytes : shared_address(dst, first + row, col);
        };
        const auto each_row = [&](auto copy) {
#pragma unroll(Dst::rows / step <= 16 ? Dst::rows / step : 4)
            for (int row = 0; row < Dst::rows; row += step) {
                if (Dst::rows % step != 0 && first + row >= Dst::rows) break;
                copy(row);
                from += step * src.stride[2];
            }
        };
        if (bytes % 16 != 0) each_row([&](int row) { copy_unit<Src>(place(row), from, row < left ? bytes : 0); });
        else each_row([&](int row) { copy_unit_if<Src>(place(row), from, bytes > 0 && row < left); });
    }
    template <shared_vec Dst, global_tensor Src>
    kittens_device static void start_copy(Dst& dst, const Src& src, element_coord at) {
        constexpr int unit = 16 / sizeof(typename Dst::T);
        for (int i = rank() * unit; i < Dst::length; i += threads * unit) {
            const int cols = at.r < src.rows() ? src.cols() - at.c - i : 0;
            copy_unit<Src>(shared_address(dst.data + i), src.row(at.b, at.d, at.r) + at.c + i, bytes_left<Src>(cols));
        }
    }
    // Of a unit's 16 bytes, those in so many columns that are left.
    template <global_tensor Src> kittens_device static int bytes_left(int cols) {
        return max(0, min(cols * int(sizeof(typename Src::T)), 16));
    }
    // The first `bytes` of a unit, and zeros; a whole unit, or zeros.
    template <global_tensor Src> kittens_device static void copy_unit(uint32_t to, const void* from, int bytes) {
        if constexpr (is_hinted<Src>)
            asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
                         "r"(bytes), "l"(l2_policy<Src>())
                         : "memory");
        else asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    }
    template <global_tensor Src> kittens_device static void copy_unit_if(uint32_t to, const void* from, bool inside) {
        if constexpr (is_hinted<Src>)
            asm volatile(
                "{ .reg .pred p; setp.eq.b32 p, %2, 0; cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, p, %3; "
                "}" ::"r"(to),
                "l"(from), "r"(int(inside)), "l"(l2_policy<Src>())
                : "memory");
        else
            asm volatile(
                "{ .reg .pred p; setp.eq.b32 p, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, p; }" ::"r"(to),
                "l"(from), "r"(int(inside))
                : "memory");
    }

    template <global_tensor Dst, shared_tile Src, coordinate At>
    kittens_device static void store(const Dst& dst, const Src& src, At place, site = kittens_here) {
        const element_coord at = corner<Src>(place);
        units<Src>(dst, at, [&](int row, int col, bool whole) {
            auto* to = dst.row(at.b, at.d, at.r + row) + at.c + col;
            if (whole) {
                *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&element(src, row, col));
                return;
            }
#pragma unroll 1
            for (int i = 0; i < 16 / int(sizeof(typename Src::T)); i++)
                if (at.r + row < dst.rows() && at.c + col + i < dst.cols())
                    to[i] = from_float<typename Dst::T>(to_float(element(src, row, col + i)));
        });
    }
    template <shared_vec Dst, global_tensor Src>
    kittens_device static void load(Dst& dst, const Src& src, coord at, site = kittens_here) {
        const element_coord from = corner<Dst>(at);
        for (int i = rank(); i < Dst::length; i += threads)
            dst.data[i] = from_float<typename Dst::T>(
                from.c + i < src.cols() ? to_float(src.row(from.b, from.d, from.r)[from.c + i]) : 0.f);
    }
    template <global_tensor Dst, shared_vec Src>
    kittens_device static void store(const Dst& dst, const Src& src, coord at, site = kittens_here) {
        const element_coord to = corner<Src>(at);
        for (int i = rank(); i < Src::length; i += threads)
            if (to.c + i < dst.cols())
                dst.row(to.b, to.d, to.r)[to.c + i] = from_float<typename Dst::T>(to_float(src.data[i]));
    }
};

// Closes the group of the copies that this warp has started since the last one, and waits until at most Pending of its
// groups have not landed. That says nothing of other warps' copies: a barrier does.
kittens_device void copy_commit(site = kittens_here) { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending = 0> kittens_device void copy_wait(site = kittens_here) {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
    __syncwarp();
}

namespace warpgroup {

// A tile of 64 rows of which each warp takes 8 of the upper half, as its upper 8 rows, and 8 of the lower: rows r and r
// + 32 are then held by one lane.
template <typename T, int C, shared_tile Tile> kittens_device uint32_t piece_of_halves(const Tile& tile, int j) {
    static_assert(sizeof(T) == 2 && std::is_same_v<T, typename Tile::T> && Tile::rows == 64 && Tile::cols == C,
                  "halves: 16-bit elements of one type, a shared tile of 64 rows and as many columns");
    const int row = 8 * warp_in_group() + lane() % 8 + 32 * (lane() / 8 % 2);
    return shared_address(tile, row, 16 * j + 8 * (lane() / 16));
}
template <typename T, int C, shared_tile Src>
kittens_device void load_halves(rt<T, 16, C>& dst, const Src& src, site = kittens_here) {
#pragma unroll
    for (int j = 0; j < C / 16; j++) load_pieces<false>(&dst.data[0][8 * j], piece_of_halves<T, C>(src, j));
}
template <shared_tile Dst, typename T, int C>
kittens_device void store_halves(Dst& dst, const rt<T, 16, C>& src, site = kittens_here) {
    using to = typename Dst::T;
#pragma unroll
    for (int j = 0; j < C / 16; j++) {
        uint32_t piece[4];
        pack_pieces<to>(piece, &src.data[0][8 * j]);
        store_matrices<false>(piece_of_halves<to, C>(dst, j), piece);
    }
}
// A col_vec of a warpgroup's tile: of every 64 values each warp holds 16.
template <shared_vec Dst, register_vec Src>
kittens_device void store(Dst& dst, const Src& src, site = kittens_here) {
    static_assert(Dst::length == 4 * Src::length,
                  "store: the shared vector has four times the register vector's length");
    const int first = warpgroup_rows::base(0);  // asked of the whole warp, not of the lanes that store
    each(
        [&](int i, auto& x) {
            if (lane() == Src::owner(i))
                dst.data[first + i / 16 * 64 + i % 16] = from_float<typename Dst::T>(to_float(x));
        },
        src);
}
// Of every 64 values of src each warp takes 16: those of its rows.
template <register_vec Dst, shared_vec Src>
kittens_device void load(Dst& dst, const Src& src, site = kittens_here) {
    static_assert(Src::length == 4 * Dst::length, "load: at warpgroup scope a warp holds a quarter of the vector");
    const int first = warpgroup_rows::base(0);
    each([&](int i, auto& x) { x = from_float<typename Dst::T>(to_float(src.data[first + i / 16 * 64 + i % 16])); },
         dst);
}
// dst = src transposed: of every 64 columns of src each warp takes 16, as rows.
template <typename T, int R, int C, shared_tile Src>
kittens_device void load_transposed(rt<T, R, C>& dst, const Src& src, site = kittens_here) {
    static_assert(sizeof(T) == 2 && std::is_same_v<T, typename Src::T>, "load_transposed: 16-bit elements of one type");
    static_assert(Src::cols == 4 * R && Src::rows == C,
                  "load_transposed: the register tile has a quarter of the shared tile's columns, as rows");
    each_base<R / 16, C / 16>([&](int i, int j) {
        load_pieces<true>(&dst.data[i][8 * j], shared_address(src, 16 * j + lane() % 8 + 8 * (lane() / 16),
                                                              warpgroup_rows::base(i) + 8 * (lane() / 8 % 2)));
    });
}

}  // namespace warpgroup
}  // namespace kittens
