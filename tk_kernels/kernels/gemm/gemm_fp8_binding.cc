// Exports the FP8 GEMM to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>
#include <initializer_list>
#include <string>

#include "gemm_fp8.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

constexpr DLDataType e4m3{kDLFloat8_e4m3fn, 8, 1};
constexpr std::int64_t k_multiple = 16;  // elements of a row, for its stride to be one of 16 bytes

// A matrix in memory; strides in elements.
struct matrix {
    void* data;
    std::int64_t rows, cols, row_stride, col_stride, element_bytes;
};

void require_matrix(const char* name, const TensorView& tensor, std::initializer_list<DLDataType> allowed,
                    const TensorView& a) {
    require_tensor(name, tensor, 2, allowed, tk::gemm_fp8::largest_size);
    require_device(name, tensor, {"a", a});
}

// The stride of a dimension of size 1 means nothing: a single column is dense, a single row one of rows of any pitch.
matrix as_matrix(const TensorView& tensor) {
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
bool is_addressable(const matrix& m) {
    return m.col_stride == 1 && m.row_stride >= m.cols && m.row_stride * m.element_bytes % alignment == 0 &&
           reinterpret_cast<std::uintptr_t>(m.data) % alignment == 0;
}

// One factor, or one for each of `count` rows (of columns where not `rows`).
tk::gemm_fp8::factors as_factors(const char* name, const Optional<TensorView>& given, std::int64_t count, bool rows,
                                 const TensorView& a) {
    if (!given.has_value()) return {};
    const TensorView& scale = given.value();
    require_type(name, scale, {float32});
    require_device(name, scale, {"a", a});
    std::int64_t elements = 1;
    for (int dim = 0; dim < scale.ndim(); ++dim) elements *= scale.size(dim);
    const auto* data = static_cast<const float*>(scale.data_ptr());
    const int along = rows ? 0 : 1;
    const bool vector = scale.ndim() == 2 && scale.size(along) == count && scale.size(1 - along) == 1;
    if (vector && count > 1) {
        if (!rows && scale.stride(1) != 1) TVM_FFI_THROW(ValueError) << name << ": needs a dense row";
        return {data, scale.stride(along)};
    }
    if (elements != 1) {
        TVM_FFI_THROW(ValueError) << name << ": got shape " << text_of(scale.shape()) << ", needs one element or "
                                  << (rows ? "(" + std::to_string(count) + ", 1)"
                                           : "(1, " + std::to_string(count) + ")");
    }
    return {data, 0};
}

// Computes out = scale_a scale_b a b_transposed^T. Returns 0 when it is launched, else launches nothing and returns
// which operands need a copy that the TMA can address: 1 for a, 2 for b_transposed, 4 for out; `copied` says which are.
// A TMA store writes whole 16-byte units, so rows of another length need an `out` that is such a copy, whose padding is
// its own.
std::int64_t gemm_fp8(TensorView a, TensorView b_transposed, TensorView out, std::int64_t copied,
                      Optional<TensorView> scale_a, Optional<TensorView> scale_b, bool fast_accum, std::int64_t stages,
                      std::int64_t persistent, std::int64_t order, std::int64_t tile_m, std::int64_t tile_n,
                      std::int64_t cluster_m, std::int64_t cluster_n, std::int64_t schedule, std::int64_t split) {
    require_matrix("a", a, {e4m3}, a);
    require_matrix("b", b_transposed, {e4m3}, a);
    require_matrix("out", out, {bfloat16, e4m3}, a);
    const std::int64_t M = a.size(0), N = b_transposed.size(0), K = a.size(1);
    if (b_transposed.size(1) != K) {
        TVM_FFI_THROW(ValueError) << "b: got " << b_transposed.size(1) << " rows, needs " << K
                                  << ", the number of columns of a";
    }
    if (K % k_multiple != 0)
        TVM_FFI_THROW(ValueError) << "a: got " << K << " columns, needs a multiple of " << k_multiple;
    require_shape("out", out, {M, N}, "the rows of a and the columns of b");
    const matrix ma = as_matrix(a), mb = as_matrix(b_transposed), mo = as_matrix(out);
    const auto rows = as_factors("scale_a", scale_a, M, true, a), cols = as_factors("scale_b", scale_b, N, false, a);
    const bool whole_units = mo.cols * mo.element_bytes % alignment == 0 || (copied & 4) != 0;
    const std::int64_t copies =
        (is_addressable(ma) ? 0 : 1) | (is_addressable(mb) ? 0 : 2) | (is_addressable(mo) && whole_units ? 0 : 4);
    if (copies != 0) return copies;

    const tk::gemm_fp8::options options{narrow(stages),    narrow(persistent), narrow(order),
                                        narrow(tile_m),    narrow(tile_n),     narrow(cluster_m),
                                        narrow(cluster_n), narrow(schedule),   narrow(split)};
    const auto type = mo.element_bytes == 2 ? tk::gemm_fp8::result::bf16 : tk::gemm_fp8::result::e4m3;
    launching([&] {
        tk::gemm_fp8::launch(
            {mo.data, ma.data, mb.data, M, N, K, ma.row_stride, mb.row_stride, mo.row_stride, (copied & 3) != 0},
            {type, rows, cols, fast_accum}, options, stream_of(a));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_fp8, gemm_fp8);
