// Exports the FP8 GEMM to Python: checks every argument, then launches on the caller's stream.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "gemm_fp8.h"

namespace {

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

constexpr std::uintptr_t base_alignment = 16;  // of a TMA's global address and row stride, bytes
constexpr std::int64_t k_multiple = 16;        // elements of a row, for its stride to be one of 16 bytes

// A matrix in memory; strides in elements.
struct matrix {
    void* data;
    std::int64_t rows, cols, row_stride, col_stride, element_bytes;
};

std::string shape_of(const TensorView& tensor) {
    std::string text = "(";
    for (int dim = 0; dim < tensor.ndim(); ++dim) text += (dim ? ", " : "") + std::to_string(tensor.size(dim));
    return text + ")";
}

bool is_type(const TensorView& tensor, int code, int bits) {
    const DLDataType got = tensor.dtype();
    return got.code == code && got.bits == bits && got.lanes == 1;
}

[[noreturn]] void wrong_type(const char* name, const TensorView& tensor, const char* wanted) {
    const DLDataType got = tensor.dtype();
    // By numbers: tvm_ffi's own text throws for a type it has no name for, and a throw in here ends the process.
    TVM_FFI_THROW(ValueError) << name << ": got elements of DLPack code " << int(got.code) << " and " << int(got.bits)
                              << " bits x " << got.lanes << ", needs " << wanted;
    throw std::logic_error("unreachable");
}

void require_matrix(const char* name, const TensorView& tensor, const TensorView& a) {
    if (tensor.ndim() != 2) TVM_FFI_THROW(ValueError) << name << ": got rank " << tensor.ndim() << ", needs rank 2";
    for (int dim = 0; dim < 2; ++dim) {
        if (tensor.size(dim) < 1 || tensor.size(dim) > tk::gemm_fp8::largest_size) {
            TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs every size from 1 to "
                                      << tk::gemm_fp8::largest_size;
        }
    }
    const DLDevice got = tensor.device(), wanted = a.device();
    if (got.device_type != wanted.device_type || got.device_id != wanted.device_id) {
        const auto text = [](const DLDevice& d) {
            return (d.device_type == kDLCPU ? std::string("cpu") : "cuda:" + std::to_string(d.device_id));
        };
        TVM_FFI_THROW(ValueError) << name << ": is on " << text(got) << ", needs to be on " << text(wanted)
                                  << " as a is";
    }
}

void require_operand(const char* name, const TensorView& tensor, const TensorView& a) {
    if (!is_type(tensor, kDLFloat8_e4m3fn, 8)) wrong_type(name, tensor, "float8_e4m3fn");
    require_matrix(name, tensor, a);
}

// The stride of a dimension of size 1 means nothing: a single column is dense, a single row one of rows of any pitch.
matrix as_matrix(const TensorView& tensor) {
    const std::int64_t rows = tensor.size(0), cols = tensor.size(1), bytes = tensor.dtype().bits / 8;
    const std::int64_t unit = std::int64_t(base_alignment) / bytes, any_pitch = (cols + unit - 1) / unit * unit;
    return {tensor.data_ptr(),
            rows,
            cols,
            rows == 1 ? any_pitch : tensor.stride(0),
            cols == 1 ? 1 : tensor.stride(1),
            bytes};
}

// Whether the TMA can address the matrix where it lies; if not, the caller makes an aligned copy.
bool is_addressable(const matrix& m) {
    return m.col_stride == 1 && m.row_stride >= m.cols &&
           m.row_stride * m.element_bytes % std::int64_t(base_alignment) == 0 &&
           reinterpret_cast<std::uintptr_t>(m.data) % base_alignment == 0;
}

// One factor, or one for each of `count` rows (of columns where not `rows`).
tk::gemm_fp8::factors as_factors(const char* name, const Optional<TensorView>& given, std::int64_t count, bool rows,
                                 const TensorView& a) {
    if (!given.has_value()) return {};
    const TensorView& scale = given.value();
    if (!is_type(scale, kDLFloat, 32)) wrong_type(name, scale, "float32");
    const DLDevice got = scale.device(), wanted = a.device();
    if (got.device_type != wanted.device_type || got.device_id != wanted.device_id)
        TVM_FFI_THROW(ValueError) << name << ": is on another device than a";
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
        TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(scale) << ", needs one element or "
                                  << (rows ? "(" + std::to_string(count) + ", 1)"
                                           : "(1, " + std::to_string(count) + ")");
    }
    return {data, 0};
}

// Computes out = scale_a scale_b a b_transposed^T. Returns 0 when it is launched, else launches nothing and returns which
// operands need a copy that the TMA can address: 1 for a, 2 for b_transposed, 4 for out. A TMA store writes whole 16-byte
// units, so rows of another length need an `out` whose padding is its own (`padded`).
std::int64_t gemm_fp8(TensorView a, TensorView b_transposed, TensorView out, bool padded, Optional<TensorView> scale_a,
                      Optional<TensorView> scale_b, bool fast_accum, std::int64_t stages, std::int64_t persistent,
                      std::int64_t order, std::int64_t tile_m, std::int64_t tile_n, std::int64_t cluster_m,
                      std::int64_t cluster_n, std::int64_t schedule) {
    require_operand("a", a, a);
    require_operand("b", b_transposed, a);
    if (!is_type(out, kDLBfloat, 16) && !is_type(out, kDLFloat8_e4m3fn, 8))
        wrong_type("out", out, "bfloat16 or float8_e4m3fn");
    require_matrix("out", out, a);
    const std::int64_t M = a.size(0), N = b_transposed.size(0), K = a.size(1);
    if (b_transposed.size(1) != K) {
        TVM_FFI_THROW(ValueError) << "b: got " << b_transposed.size(1) << " rows, needs " << K
                                  << ", the number of columns of a";
    }
    if (K % k_multiple != 0)
        TVM_FFI_THROW(ValueError) << "a: got " << K << " columns, needs a multiple of " << k_multiple;
    if (out.size(0) != M || out.size(1) != N) {
        TVM_FFI_THROW(ValueError) << "out: got shape " << shape_of(out) << ", needs (" << M << ", " << N << ")";
    }
    const matrix ma = as_matrix(a), mb = as_matrix(b_transposed), mo = as_matrix(out);
    const auto rows = as_factors("scale_a", scale_a, M, true, a), cols = as_factors("scale_b", scale_b, N, false, a);
    const bool whole_units = mo.cols * mo.element_bytes % std::int64_t(base_alignment) == 0 || padded;
    const std::int64_t copies =
        (is_addressable(ma) ? 0 : 1) | (is_addressable(mb) ? 0 : 2) | (is_addressable(mo) && whole_units ? 0 : 4);
    if (copies != 0) return copies;

    const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
    const tk::gemm_fp8::options options{narrow(stages), narrow(persistent), narrow(order),     narrow(tile_m),
                                        narrow(tile_n), narrow(cluster_m),  narrow(cluster_n), narrow(schedule)};
    const auto type = mo.element_bytes == 2 ? tk::gemm_fp8::result::bf16 : tk::gemm_fp8::result::e4m3;
    const DLDevice device = a.device();
    try {
        tk::gemm_fp8::launch(mo.data, type, ma.data, mb.data, M, N, K, ma.row_stride, mb.row_stride, mo.row_stride,
                             rows, cols, fast_accum, options, TVMFFIEnvGetStream(device.device_type, device.device_id));
    } catch (const tvm::ffi::Error&) {
        throw;
    } catch (const std::invalid_argument& error) {
        TVM_FFI_THROW(ValueError) << error.what();
    } catch (const std::exception& error) {
        TVM_FFI_THROW(RuntimeError) << error.what();
    }
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_fp8, gemm_fp8);
