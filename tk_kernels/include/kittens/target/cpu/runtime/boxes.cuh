// What the copy engine moves: a box of a global tensor, clipped in every dimension.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kittens/target/cpu/runtime/report.cuh"

namespace kittens::cpu {

enum class element_type { f32, f16, bf16 };
template <typename T> inline constexpr element_type element_of = element_type::f32;
template <> inline constexpr element_type element_of<half> = element_type::f16;
template <> inline constexpr element_type element_of<bf16> = element_type::bf16;

// rows x cols elements at (batch, depth, row, col) of a tensor; strides in elements, columns contiguous.
struct box {
    unsigned char* base;
    element_type type;
    int element_bytes;
    int extent[4];
    int64_t stride[3];
    int at[4];
    int rows, cols;

    int bytes() const { return rows * cols * element_bytes; }
    unsigned char* row(int r) const {
        return base + (at[0] * stride[0] + at[1] * stride[1] + int64_t(at[2] + r) * stride[2] + at[3]) * element_bytes;
    }
    // Rows and columns of the box that lie in the tensor.
    int inner_rows() const {
        const bool inside = at[0] < extent[0] && at[1] < extent[1];
        return inside ? std::clamp(extent[2] - at[2], 0, rows) : 0;
    }
    int inner_cols() const { return std::clamp(extent[3] - at[3], 0, cols); }
};

// Rows of bytes in global memory.
struct region {
    uintptr_t low;
    int rows;
    size_t bytes;  // of a row
    int64_t pitch;

    uintptr_t row(int r) const { return low + r * pitch; }
};
inline region region_of(const void* low, size_t bytes) { return {reinterpret_cast<uintptr_t>(low), 1, bytes, 0}; }
// What a box moves.
inline region region_of(const box& b) {
    const int rows = b.inner_rows(), cols = b.inner_cols();
    if (rows == 0 || cols == 0) return {};
    return {reinterpret_cast<uintptr_t>(b.row(0)), rows, size_t(cols) * b.element_bytes, b.stride[2] * b.element_bytes};
}

inline void check(const box& b, const action& who, bool is_matrix) {
    static constexpr const char* dimension[] = {"batch", "depth", "row", "column"};
    for (int d = 0; d < 4; d++)
        if (b.at[d] < 0)
            fail(name(who), " has a negative ", dimension[d], " coordinate, ", b.at[d],
                 ": tiles start inside the tensor");
    if (is_matrix && (b.at[0] != 0 || b.at[1] != 0))
        fail(name(who), " addresses (batch ", b.at[0], ", depth ", b.at[1],
             ") of a matrix: its gl type has only rows and columns");
}

inline void read_box(const box& from, unsigned char* to) {
    const int rows = from.inner_rows(), pitch = from.cols * from.element_bytes,
              used = from.inner_cols() * from.element_bytes;
    for (int r = 0; r < from.rows; r++) {
        unsigned char* line = to + r * pitch;
        const int valid = r < rows ? used : 0;
        if (valid > 0) std::memcpy(line, from.row(r), valid);
        std::memset(line + valid, 0, pitch - valid);
    }
}

inline void write_box(const box& to, const unsigned char* from) {
    const int rows = to.inner_rows(), pitch = to.cols * to.element_bytes, used = to.inner_cols() * to.element_bytes;
    for (int r = 0; r < rows && used > 0; r++) std::memcpy(to.row(r), from + r * pitch, used);
}

// target += value, atomically with respect to other blocks' additions.
template <typename T> void add_element(T* target, T value) {
    using word = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
    std::atomic_ref<word> cell(*reinterpret_cast<word*>(target));
    word old = cell.load(), sum;
    do {
        T before, after;
        std::memcpy(&before, &old, sizeof(T));
        after = from_float<T>(to_float(before) + to_float(value));
        std::memcpy(&sum, &after, sizeof(T));
    } while (!cell.compare_exchange_weak(old, sum));
}

template <typename T> void add_rows(const box& to, const unsigned char* from) {
    const int rows = to.inner_rows(), cols = to.inner_cols();
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            add_element(reinterpret_cast<T*>(to.row(r)) + c, reinterpret_cast<const T*>(from)[r * to.cols + c]);
}

inline void add_box(const box& to, const unsigned char* from) {
    if (to.type == element_type::f32) add_rows<float>(to, from);
    else if (to.type == element_type::f16) add_rows<half>(to, from);
    else add_rows<bf16>(to, from);
}

}  // namespace kittens::cpu
