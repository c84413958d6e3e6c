// Global tensors.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>

#include "kittens/types/shared.cuh"

namespace kittens {

// A tensor of batch x depth x rows x cols elements in global memory; columns are contiguous, the other dimensions
// have strides in elements. An extent is a compile-time number or `dynamic`. Each type in Tiles gets a tensor map,
// made on the host when the gl is, for asynchronous loads and stores of that tile or vector: a map keeps every
// dimension, so tails are filled with zeros or clipped exactly where the tensor ends and never touch the next head.
//
// The host constructor throws std::invalid_argument where TMA needs more than the tensor has: a 16-byte aligned base
// and strides that are multiples of 16 bytes.
template <typename T_, int Batch, int Depth, int Rows, int Cols, typename... Tiles>
struct gl {
    using T = T_;
    static constexpr bool is_matrix = Batch == 1 && Depth == 1;  // two-dimensional tensor maps are enough

    T* data;
    int extent[4];      // batch, depth, rows, cols
    int64_t stride[3];  // batch, depth, row, in elements
    std::tuple<tensor_map<typename Tiles::whole>...> maps;

    gl(T* data_, int64_t batch, int64_t depth, int64_t rows, int64_t cols, int64_t row_stride, int64_t depth_stride,
       int64_t batch_stride)
        : data(data_),
          extent{pick<Batch>(batch), pick<Depth>(depth), pick<Rows>(rows), pick<Cols>(cols)},
          stride{batch_stride, depth_stride, row_stride},
          maps(tensor_map<typename Tiles::whole>(static_cast<const void*>(data_), extent, stride, is_matrix)...) {}

    // A dense tensor.
    gl(T* data_, int64_t batch, int64_t depth, int64_t rows, int64_t cols)
        : gl(data_, batch, depth, rows, cols, cols, rows * cols, depth * rows * cols) {}

    // A tensor that lies as the host's own description of it says: its base, and strides of batches, heads (the depth)
    // and rows.
    template <typename Strided>
        requires requires(const Strided& t) { t.head_stride; }
    gl(const Strided& t, int64_t batch, int64_t heads, int64_t rows, int64_t cols)
        : gl(static_cast<T*>(t.data), batch, heads, rows, cols, t.row_stride, t.head_stride, t.batch_stride) {}

    kittens_host_device int batch() const { return known<Batch>(extent[0]); }
    kittens_host_device int depth() const { return known<Depth>(extent[1]); }
    kittens_host_device int rows() const { return known<Rows>(extent[2]); }
    kittens_host_device int cols() const { return known<Cols>(extent[3]); }

    template <typename Tile>
    static constexpr bool has_map = (std::is_same_v<typename Tile::whole, typename Tiles::whole> || ...);
    template <typename Tile>
    kittens_host_device const tensor_map<typename Tile::whole>& map() const {
        static_assert(has_map<Tile>, "gl: no tensor map for this tile type; name it in the gl's type list");
        return std::get<tensor_map<typename Tile::whole>>(maps);
    }

    kittens_host_device T* row(int b, int d, int r) const {
        return data + b * stride[0] + d * stride[1] + r * stride[2];
    }

  private:
    template <int Static> static int pick(int64_t given) { return Static == dynamic ? int(given) : Static; }
    template <int Static> kittens_host_device static int known(int held) { return Static == dynamic ? held : Static; }
};

// A tensor as the host describes it, with its extents: becomes a gl of the tiles that a kernel wants.
template <typename Strided> struct host_tensor {
    const Strided& at;
    int64_t batch, heads, rows, cols;

    template <typename T, int B, int D, int R, int C, typename... Tiles> operator gl<T, B, D, R, C, Tiles...>() const {
        return {at, batch, heads, rows, cols};
    }
};

// (batch, head, row, column) in bf16, as attention and its relatives know their operands.
template <typename... Tiles> using heads_of = gl<bf16, dynamic, dynamic, dynamic, dynamic, Tiles...>;

template <typename X> inline constexpr bool is_gl = false;
template <typename T, int B, int D, int R, int C, typename... Tiles>
inline constexpr bool is_gl<gl<T, B, D, R, C, Tiles...>> = true;

// What is known of a tensor's use. `exchanged`: blocks of one launch both write and read it, handed over by counters.
// Its elements are not const, so that no compiler may load them by a path that is not coherent; the cpu target knows
// who wrote and read each byte last. `loaded_once`, `loaded_often`: its tiles are loaded once, or by many blocks: L2 is
// to let go first, or last, of what load_async and copy_async bring of it. A hint to GPUs, which changes no result.
enum class tensor_use { exchanged, loaded_once, loaded_often };
template <typename Gl, tensor_use Use> struct used : Gl {
    static_assert(Use != tensor_use::exchanged || !std::is_const_v<typename Gl::T>,
                  "exchanged: blocks write this tensor; its elements are not const");
    using Gl::Gl;
    used(const Gl& tensor) : Gl(tensor) {}
};
template <typename Gl> using exchanged = used<Gl, tensor_use::exchanged>;
template <typename Gl> using loaded_once = used<Gl, tensor_use::loaded_once>;
template <typename Gl> using loaded_often = used<Gl, tensor_use::loaded_often>;
template <typename X, tensor_use Use> inline constexpr bool is_used = false;
template <typename Gl, tensor_use Use> inline constexpr bool is_used<used<Gl, Use>, Use> = true;
template <typename X> inline constexpr bool is_exchanged = is_used<X, tensor_use::exchanged>;
template <typename Gl, tensor_use Use> inline constexpr bool is_gl<used<Gl, Use>> = is_gl<Gl>;

template <typename X>
concept global_tensor = is_gl<X>;

// A tensor's columns from one on, and so many of them. (A tensor map would still begin where it began.)
template <typename T, int B, int D, int R>
kittens_host_device gl<T, B, D, R, dynamic> columns_from(gl<T, B, D, R, dynamic> global, int first) {
    global.data += first;
    return global;
}
template <typename T, int B, int D, int R>
kittens_host_device gl<T, B, D, R, dynamic> columns_from(gl<T, B, D, R, dynamic> global, int first, int count) {
    global.data += first;
    global.extent[3] = count;
    return global;
}

// Where a register tile lies that is kept packed: its elements follow one another, in the order of the registers, which
// only load_packed knows; `Warps` of them hold it together. at.c counts tiles. Packed tiles lie wholly in a row of the
// tensor.
template <typename Tile, int Warps, global_tensor Gl> kittens_device auto* packed_tile(const Gl& global, coord at) {
    static_assert(std::is_same_v<std::remove_const_t<typename Gl::T>, float> && std::is_same_v<typename Tile::T, float>,
                  "packed tiles are fp32, in registers and in memory");
    return global.row(at.b, at.d, at.r) + at.c * (Warps * Tile::rows * Tile::cols);
}

}  // namespace kittens
