// Exports the bf16 GEMM with an epilogue to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>

#include "gemm_epilogue.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

constexpr std::int64_t stride_alignment = alignment / 2;  // of a TMA's row stride, elements

// A matrix in memory; strides in elements.
struct matrix {
    void* data;
    std::int64_t rows, cols, row_stride, col_stride;
};

// A matrix of this many columns, and of `rows` rows unless that is 0.
matrix as_matrix(const char* name, const TensorView& tensor, const TensorView& a, std::int64_t rows,
                 std::int64_t cols) {
    require_tensor(name, tensor, 2, {bfloat16}, tk::gemm_epilogue::largest_size);
    require_device(name, tensor, {"a", a});
    require_shape(name, tensor, {rows != 0 ? rows : tensor.size(0), cols}, "which goes with a and b");
    const std::int64_t any_pitch = (cols + stride_alignment - 1) / stride_alignment * stride_alignment;
    // The stride of a dimension of size 1 means nothing.
    return {tensor.data_ptr(), tensor.size(0), cols, tensor.size(0) == 1 ? any_pitch : tensor.stride(0),
            cols == 1 ? 1 : tensor.stride(1)};
}

// Whether the TMA can address the matrix where it lies; if not, the caller makes an aligned copy.
bool is_addressable(const matrix& m) {
    return m.col_stride == 1 && m.row_stride >= m.cols && m.row_stride % stride_alignment == 0 &&
           reinterpret_cast<std::uintptr_t>(m.data) % alignment == 0;
}

// What the epilogue reads it reads two elements at a time.
void require_pairs(const char* name, const matrix& m) {
    if (m.col_stride != 1 || m.row_stride % 2 != 0 || reinterpret_cast<std::uintptr_t>(m.data) % 4 != 0)
        TVM_FFI_THROW(ValueError) << name << ": needs dense columns, and rows that begin at multiples of 4 bytes";
}

// Computes out = residual + gate activation(a b + bias); bias (1, N), gate (batches, N), residual (M, N), all with
// dense columns and rows that begin at multiples of 4 bytes; where N is odd, each row is followed by an element that
// may be read. Returns 0 when it is launched, else launches nothing and returns which operands need a copy that the TMA
// can address: 1 for a, 2 for b, 4 for out, whose rows are written to the next 16 bytes; `copied` says which are.
std::int64_t gemm_epilogue(TensorView a, TensorView b, TensorView out, std::int64_t copied, Optional<TensorView> bias,
                           std::int64_t function, Optional<TensorView> gate, Optional<TensorView> residual,
                           std::int64_t stages, std::int64_t persistent, std::int64_t order, std::int64_t tile_m,
                           std::int64_t tile_n, std::int64_t cluster_m, std::int64_t cluster_n, std::int64_t schedule,
                           std::int64_t split) {
    require_rank("a", a, 2);
    require_rank("b", b, 2);
    const std::int64_t M = a.size(0), K = a.size(1), N = b.size(1);
    const matrix ma = as_matrix("a", a, a, M, K), mb = as_matrix("b", b, a, K, N), mo = as_matrix("out", out, a, M, N);
    if (function < 0 || function > 2)
        TVM_FFI_THROW(ValueError) << "activation: got " << function << ", needs 0, 1 or 2";
    tk::gemm_epilogue::epilogue e;
    e.function = static_cast<tk::gemm_epilogue::activation>(function);
    if (bias.has_value()) {
        const matrix m = as_matrix("bias", bias.value(), a, 1, N);
        require_pairs("bias", m);
        e.bias = m.data;
    }
    if (gate.has_value()) {
        const matrix m = as_matrix("gate", gate.value(), a, 0, N);
        require_pairs("gate", m);
        if (M % m.rows != 0 || (m.rows > 1 && M / m.rows % tk::gemm_epilogue::batch_multiple != 0)) {
            TVM_FFI_THROW(ValueError) << "gate: got " << m.rows << " rows for " << M
                                      << " of a, needs 1, or batches of a "
                                      << "multiple of " << tk::gemm_epilogue::batch_multiple << " rows of a";
        }
        e.gate = m.data, e.gate_batches = m.rows, e.gate_stride = m.row_stride;
    }
    if (residual.has_value()) {
        const matrix m = as_matrix("residual", residual.value(), a, M, N);
        require_pairs("residual", m);
        e.residual = m.data, e.residual_stride = m.row_stride;
    }
    const bool whole_units = N % stride_alignment == 0 || (copied & 4) != 0;
    const std::int64_t copies =
        (is_addressable(ma) ? 0 : 1) | (is_addressable(mb) ? 0 : 2) | (is_addressable(mo) && whole_units ? 0 : 4);
    if (copies != 0) return copies;

    const tk::gemm_epilogue::options options{narrow(stages),    narrow(persistent), narrow(order),
                                             narrow(tile_m),    narrow(tile_n),     narrow(cluster_m),
                                             narrow(cluster_n), narrow(schedule),   narrow(split)};
    launching([&] {
        tk::gemm_epilogue::launch(
            {mo.data, ma.data, mb.data, M, N, K, ma.row_stride, mb.row_stride, mo.row_stride, (copied & 3) != 0}, e,
            options, stream_of(a));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_epilogue, gemm_epilogue);
