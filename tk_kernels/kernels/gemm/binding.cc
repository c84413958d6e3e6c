// Exports the bf16 GEMM to Python: launches on the caller's stream.
#include <cstdint>

#include "arguments.h"
#include "gemm.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// Whether two matrices share an element. Exact where both have dense columns and the same row
// stride (windows of one buffer), else by the ranges of addresses.
bool share_memory(const matrix& x, const matrix& y) {
    const auto begin = [](const matrix& m) { return reinterpret_cast<std::intptr_t>(m.data); };
    const auto end = [&](const matrix& m) {
        return begin(m) + ((m.rows - 1) * m.row_stride + (m.cols - 1) * m.col_stride + 1) * m.element_bytes;
    };
    if (end(x) <= begin(y) || end(y) <= begin(x)) return false;
    if (x.row_stride != y.row_stride || x.row_stride <= 0 || x.col_stride != 1 || y.col_stride != 1) return true;
    const std::int64_t pitch = x.row_stride * x.element_bytes;
    const std::int64_t column = ((begin(y) - begin(x)) % pitch + pitch) % pitch;  // of y's first byte in x's rows
    return column < x.cols * x.element_bytes || column + y.cols * y.element_bytes > pitch;
}

void require_output(const matrix& o, const matrix& a, const matrix& b) {
    const bool row_major = o.col_stride >= 1 && o.row_stride > (o.cols - 1) * o.col_stride;
    const bool column_major = o.row_stride >= 1 && o.col_stride > (o.rows - 1) * o.row_stride;
    if (!row_major && !column_major) {
        TVM_FFI_THROW(ValueError) << "out: got strides (" << o.row_stride << ", " << o.col_stride
                                  << "), needs strides with which no two elements share memory";
    }
    if (share_memory(o, a)) TVM_FFI_THROW(ValueError) << "out: shares memory with a, needs memory of its own";
    if (share_memory(o, b)) TVM_FFI_THROW(ValueError) << "out: shares memory with b, needs memory of its own";
}

// Computes out = a b. Returns 0 when it is launched, else launches nothing and returns copies_of.
std::int64_t gemm(TensorView a, TensorView b, TensorView out, std::int64_t copied, std::int64_t stages,
                  std::int64_t persistent, std::int64_t order, std::int64_t tile_m, std::int64_t tile_n,
                  std::int64_t cluster_m, std::int64_t cluster_n, std::int64_t schedule, std::int64_t split) {
    const matrix ma = as_matrix(a), mb = as_matrix(b), mo = as_matrix(out);
    require_output(mo, ma, mb);
    const std::int64_t copies = copies_of(ma, mb, mo, copied);
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
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stalled, tk::gemm::stalled);
