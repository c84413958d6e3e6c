// Exports dropout, residual addition and layer normalisation to Python: checks every argument, then launches on the
// caller's stream.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "dropout_add_layernorm.h"

namespace {

using tk::dropout_add_layernorm::matrix;
using tvm::ffi::Optional;
using tvm::ffi::TensorView;

constexpr std::uintptr_t alignment = 16;  // of bases and strides, bytes

bool is(const DLDataType& got, int code, int bits) { return got.code == code && got.bits == bits && got.lanes == 1; }

std::string shape_of(const TensorView& tensor) {
    std::string text;
    for (int dim = 0; dim < tensor.ndim(); ++dim) text += (dim ? ", " : "(") + std::to_string(tensor.size(dim));
    return text + ")";
}

void require_device(const char* name, const TensorView& tensor, const TensorView& x) {
    const DLDevice got = tensor.device(), wanted = x.device();
    if (got.device_type != wanted.device_type || got.device_id != wanted.device_id)
        TVM_FFI_THROW(ValueError) << name << ": is on another device than x";
}

void require_matrix(const char* name, const TensorView& tensor, const TensorView& x, bool halves) {
    if (tensor.ndim() != 2) TVM_FFI_THROW(ValueError) << name << ": got rank " << tensor.ndim() << ", needs rank 2";
    if (halves && !is(tensor.dtype(), kDLBfloat, 16))
        TVM_FFI_THROW(ValueError) << name << ": got another dtype, needs bfloat16";
    if (!halves && tensor.dtype().bits != 8)
        TVM_FFI_THROW(ValueError) << name << ": got another dtype, needs one of a byte an element";
    require_device(name, tensor, x);
    if (tensor.size(0) != x.size(0) || tensor.size(1) != x.size(1))
        TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs that of x, " << shape_of(x);
}

void require_vector(const char* name, const TensorView& vector, const TensorView& x, const TensorView& weight) {
    if (vector.ndim() != 1 || vector.size(0) != x.size(1))
        TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(vector) << ", needs (" << x.size(1) << ",)";
    if (!is(vector.dtype(), kDLBfloat, 16) && !is(vector.dtype(), kDLFloat, 32))
        TVM_FFI_THROW(ValueError) << name << ": got another dtype, needs bfloat16 or float32";
    if (vector.dtype().bits != weight.dtype().bits)
        TVM_FFI_THROW(ValueError) << name << ": got another dtype than weight, needs the same";
    require_device(name, vector, x);
}

std::int64_t pitch(const TensorView& tensor) { return tensor.size(0) == 1 ? tensor.size(1) : tensor.stride(0); }

// Whether rows are dense and every 16 bytes of them aligned. The stride of a dimension of size 1 means nothing.
bool is_addressable(const TensorView& tensor) {
    const int last = tensor.ndim() - 1, bytes = tensor.dtype().bits / 8;
    const bool rows = last == 0 || (pitch(tensor) > 0 && pitch(tensor) * bytes % std::int64_t(alignment) == 0);
    return rows && tensor.stride(last) == 1 && reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % alignment == 0;
}

matrix as_matrix(const TensorView& tensor) { return {tensor.data_ptr(), pitch(tensor)}; }

// Computes normed and sum, and a mask where one is given. Returns 0 when it is launched, else launches nothing and returns
// which operands need a dense copy: 1 for x, 2 for residual, 4 for weight, 8 for bias.
std::int64_t dropout_add_layernorm(TensorView x, TensorView residual, TensorView weight, Optional<TensorView> bias,
                                   TensorView normed, TensorView sum, Optional<TensorView> mask, double p, double eps,
                                   std::int64_t seed, std::int64_t offset, bool rms, std::int64_t blocks) {
    require_matrix("x", x, x, true);
    require_matrix("residual", residual, x, true);
    require_matrix("normed", normed, x, true);
    require_matrix("sum", sum, x, true);
    require_vector("weight", weight, x, weight);
    if (bias.has_value()) require_vector("bias", bias.value(), x, weight);
    if (mask.has_value()) require_matrix("mask", mask.value(), x, false);
    const std::int64_t copies = (is_addressable(x) ? 0 : 1) | (is_addressable(residual) ? 0 : 2) |
                                (is_addressable(weight) ? 0 : 4) |
                                (!bias.has_value() || is_addressable(bias.value()) ? 0 : 8);
    if (copies != 0) return copies;
    if (!is_addressable(normed) || !is_addressable(sum) || (mask.has_value() && !is_addressable(mask.value())))
        TVM_FFI_THROW(ValueError) << "normed, sum, mask: need dense rows at multiples of 16 bytes";
    const tk::dropout_add_layernorm::problem problem{x.size(0),
                                                     static_cast<int>(x.size(1) > 1 << 20 ? 1 << 20 : x.size(1)),
                                                     weight.dtype().bits == 32,
                                                     rms,
                                                     static_cast<float>(eps),
                                                     p,
                                                     static_cast<std::uint64_t>(seed),
                                                     static_cast<std::uint64_t>(offset),
                                                     static_cast<int>(blocks)};
    const DLDevice device = x.device();
    try {
        tk::dropout_add_layernorm::launch(
            as_matrix(normed), as_matrix(sum), mask.has_value() ? as_matrix(mask.value()) : matrix{nullptr, 0},
            as_matrix(x), as_matrix(residual), weight.data_ptr(), bias.has_value() ? bias.value().data_ptr() : nullptr,
            problem, TVMFFIEnvGetStream(device.device_type, device.device_id));
    } catch (const std::invalid_argument& error) {
        TVM_FFI_THROW(ValueError) << error.what();
    } catch (const std::exception& error) {
        TVM_FFI_THROW(RuntimeError) << error.what();
    }
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(dropout_add_layernorm, dropout_add_layernorm);
