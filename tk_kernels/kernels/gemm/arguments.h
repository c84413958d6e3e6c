// What the bindings of all matrix products share. Operands' dtypes, shapes and devices are checked by the operators.
#pragma once

#include <cstdint>

#include "tk/binding.h"

namespace tk::binding {

// A matrix in memory; strides in elements.
struct matrix {
    void* data;
    std::int64_t rows, cols, row_stride, col_stride, element_bytes;
};

// The stride of a dimension of size 1 means nothing: a single column is dense, a single row one of rows of any pitch.
inline matrix as_matrix(const TensorView& tensor) {
    const std::int64_t rows = tensor.size(0), cols = tensor.size(1), bytes = tensor.dtype().bits / 8;
    const std::int64_t unit = alignment / bytes, any_pitch = (cols + unit - 1) / unit * unit;
    return {tensor.data_ptr(),
            rows,
            cols,
            rows == 1 ? any_pitch : tensor.stride(0),
            cols == 1 ? 1 : tensor.stride(1),
            bytes};
}

// Whether the TMA can address the matrix where it lies; if not, the caller makes an aligned copy.
inline bool is_addressable(const matrix& m) {
    return m.col_stride == 1 && m.row_stride >= m.cols && m.row_stride * m.element_bytes % alignment == 0 &&
           reinterpret_cast<std::uintptr_t>(m.data) % alignment == 0;
}

// Which of a, b and out need a copy that the TMA can address: 1 for a, 2 for b, 4 for out; `copied` says which are. A
// TMA store writes whole 16-byte units, so rows of another length need an `out` that is such a copy, whose padding is
// its own.
inline std::int64_t copies_of(const matrix& a, const matrix& b, const matrix& out, std::int64_t copied) {
    const bool whole_units = out.cols * out.element_bytes % alignment == 0 || (copied & 4) != 0;
    return (is_addressable(a) ? 0 : 1) | (is_addressable(b) ? 0 : 2) | (is_addressable(out) && whole_units ? 0 : 4);
}

}  // namespace tk::binding
