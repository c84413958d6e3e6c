// Exports the bf16 GEMM to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>
#include <utility>

#include "gemm.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

constexpr std::int64_t element_bytes = 2;
constexpr std::int64_t stride_alignment = alignment / element_bytes;

// A matrix in memory; strides in elements.
struct matrix {
    void* data;
    std::int64_t rows, cols, row_stride, col_stride;
};

// The stride of a dimension of size 1 means nothing: a single column is dense, and a single row may
// be taken as one of rows of any pitch.
matrix as_matrix(const TensorView& tensor) {
    const std::int64_t rows = tensor.size(0), cols = tensor.size(1);
    const std::int64_t any_pitch = (cols + stride_alignment - 1) / stride_alignment * stride_alignment;
    return {tensor.data_ptr(), rows, cols, rows == 1 ? any_pitch : tensor.stride(0), cols == 1 ? 1 : tensor.stride(1)};
}

// Whether the TMA can address the matrix where it lies; if not, the caller makes an aligned copy.
bool is_addressable(const matrix& m) {
    return m.col_stride == 1 && m.row_stride >= m.cols && m.row_stride % stride_alignment == 0 &&
           reinterpret_cast<std::uintptr_t>(m.data) % alignment == 0;
}

// Whether two matrices share an element. Exact where both have dense columns and the same row
// stride (windows of one buffer), else by the ranges of addresses.
bool share_memory(const matrix& x, const matrix& y) {
    const auto begin = [](const matrix& m) { return reinterpret_cast<std::intptr_t>(m.data); };
    const auto end = [&](const matrix& m) {
        return begin(m) + ((m.rows - 1) * m.row_stride + (m.cols - 1) * m.col_stride + 1) * element_bytes;
    };
    if (end(x) <= begin(y) || end(y) <= begin(x)) return false;
    if (x.row_stride != y.row_stride || x.row_stride <= 0 || x.col_stride != 1 || y.col_stride != 1) return true;
    const std::int64_t pitch = x.row_stride * element_bytes;
    const std::int64_t column = ((begin(y) - begin(x)) % pitch + pitch) % pitch;  // of y's first byte in x's rows
    return column < x.cols * element_bytes || column + y.cols * element_bytes > pitch;
}

void require_output(const matrix& o, const matrix& a, const matrix& b) {
    if (o.rows != a.rows || o.cols != b.cols) {
        TVM_FFI_THROW(ValueError) << "out: got shape (" << o.rows << ", " << o.cols << "), needs (" << a.rows << ", "
                                  << b.cols << ")";
    }
    const bool row_major = o.col_stride >= 1 && o.row_stride > (o.cols - 1) * o.col_stride;
    const bool column_major = o.row_stride >= 1 && o.col_stride > (o.rows - 1) * o.row_stride;
    if (!row_major && !column_major) {
        TVM_FFI_THROW(ValueError) << "out: got strides (" << o.row_stride << ", " << o.col_stride
                                  << "), needs strides with which no two elements share memory";
    }
    if (share_memory(o, a)) TVM_FFI_THROW(ValueError) << "out: shares memory with a, needs memory of its own";
    if (share_memory(o, b)) TVM_FFI_THROW(ValueError) << "out: shares memory with b, needs memory of its own";
}

// Computes out = a b. Returns 0 when it is launched, else launches nothing and returns which
// operands need a copy that the TMA can address: 1 for a, 2 for b, 4 for out; `copied` says which are. A TMA store
// writes whole 16-byte units, so rows of another length need an `out` that is such a copy, whose padding is its own.
std::int64_t gemm(TensorView a, TensorView b, TensorView out, std::int64_t copied, std::int64_t stages,
                  std::int64_t persistent, std::int64_t order, std::int64_t tile_m, std::int64_t tile_n,
                  std::int64_t cluster_m, std::int64_t cluster_n, std::int64_t schedule, std::int64_t split) {
    for (const auto& [name, tensor] : {std::pair{"a", a}, std::pair{"b", b}, std::pair{"out", out}}) {
        require_tensor(name, tensor, 2, {bfloat16}, tk::gemm::largest_size);
        require_device(name, tensor, {"a", a});
    }
    if (a.size(1) != b.size(0)) {
        TVM_FFI_THROW(ValueError) << "b: got " << b.size(0) << " rows, needs " << a.size(1)
                                  << ", the number of columns of a";
    }
    const matrix ma = as_matrix(a), mb = as_matrix(b), mo = as_matrix(out);
    require_output(mo, ma, mb);
    const bool whole_units = mo.cols % stride_alignment == 0 || (copied & 4) != 0;
    const std::int64_t copies =
        (is_addressable(ma) ? 0 : 1) | (is_addressable(mb) ? 0 : 2) | (is_addressable(mo) && whole_units ? 0 : 4);
    if (copies != 0) return copies;

    const tk::gemm::options options{narrow(stages),    narrow(persistent), narrow(order),
                                    narrow(tile_m),    narrow(tile_n),     narrow(cluster_m),
                                    narrow(cluster_n), narrow(schedule),   narrow(split)};
    Tensor memory;
    const tk::gemm::allocation allocate = [&](std::int64_t numbers) {
        memory = scratch(numbers, a);
        return data_of(memory);
    };
    const auto run = [&] {
        tk::gemm::launch({mo.data, ma.data, mb.data, ma.rows, mb.cols, ma.cols, ma.row_stride, mb.row_stride,
                          mo.row_stride, (copied & 3) != 0, &allocate},
                         options, stream_of(a));
    };
    launching_blocks(run, tk::gemm::stalled);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm, gemm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_stalled, tk::gemm::stalled);
