// Register tiles, vectors and lines, whose contents a target lays out.
#pragma once

#include "kittens/types/layout.cuh"

namespace kittens {

template <typename T, int Rows, int Cols, layout Layout = layout::row> struct rt;
template <typename T, int Length, vec_layout Layout = vec_layout::naive> struct rv;
// Rows x Cols elements that move in runs of Run neighbours in a row: for kernels that stream rows, where nothing is
// multiplied and every byte is moved once.
template <typename T, int Rows, int Cols, int Run = 8> struct rl;

template <typename X> inline constexpr bool is_rt = false;
template <typename T, int R, int C, layout L> inline constexpr bool is_rt<rt<T, R, C, L>> = true;
template <typename X> inline constexpr bool is_rv = false;
template <typename T, int N, vec_layout L> inline constexpr bool is_rv<rv<T, N, L>> = true;
template <typename X> inline constexpr bool is_rl = false;
template <typename T, int R, int C, int Run> inline constexpr bool is_rl<rl<T, R, C, Run>> = true;
template <typename X>
concept register_tile = is_rt<std::remove_const_t<X>>;
template <typename X>
concept register_vec = is_rv<std::remove_const_t<X>>;
template <typename X>
concept register_lines = is_rl<std::remove_const_t<X>>;

template <int R, int C, layout L = layout::row> using rt_fl = rt<float, R, C, L>;
template <int R, int C, layout L = layout::row> using rt_bf = rt<bf16, R, C, L>;
template <int R, int C, layout L = layout::row> using rt_hf = rt<half, R, C, L>;
template <int N, vec_layout L = vec_layout::naive> using rv_fl = rv<float, N, L>;
template <int N, vec_layout L = vec_layout::naive> using rv_bf = rv<bf16, N, L>;
template <int N, vec_layout L = vec_layout::naive> using rv_hf = rv<half, N, L>;

// What every target's rt has: its shape, its base tiles, and the vectors that hold one value a row and one a column.
template <typename T_, int Rows, int Cols, layout Layout> struct tile_shape {
    using T = T_;
    static constexpr int rows = Rows, cols = Cols, height = Rows / base_tile, width = Cols / base_tile;
    static constexpr layout order = Layout;
    static_assert(Rows % base_tile == 0 && Cols % base_tile == 0, "rt: rows and cols must be multiples of 16");
    using col_vec = rv<T, Rows, Layout == layout::row ? vec_layout::ortho : vec_layout::align>;
    using row_vec = rv<T, Cols, Layout == layout::row ? vec_layout::align : vec_layout::ortho>;
};
template <typename T_, int Length, vec_layout Layout> struct vec_shape {
    using T = T_;
    static constexpr int length = Length;
    static constexpr vec_layout spread = Layout;
    static_assert(Length % base_tile == 0, "rv: length must be a multiple of 16");
};
template <typename T_, int Rows, int Cols, int Run> struct lines_shape {
    using T = T_;
    static constexpr int rows = Rows, cols = Cols, run = Run, row_runs = Cols / Run;
    static_assert(Run == 4 || Run == 8, "rl: a run has 4 or 8 elements");
    static_assert(Cols % Run == 0, "rl: cols must be a whole number of runs");
};

// A run in fp32.
template <int Run> struct floats {
    float value[Run];
};
// Whether the bytes of a move will be asked for again soon. What will not is kept out of a GPU's L1 cache and leaves L2
// first.
enum class reuse { again, once };

}  // namespace kittens
