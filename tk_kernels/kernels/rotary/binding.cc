// Exports the rotary embedding to Python: checks every argument, then launches on the caller's stream.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "rotary.h"

namespace {

using tvm::ffi::TensorView;

constexpr std::uintptr_t alignment = 16;  // of bases and strides, bytes

bool is(const DLDataType& got, int code, int bits) { return got.code == code && got.bits == bits && got.lanes == 1; }

std::string shape_of(const TensorView& tensor) {
    std::string text;
    for (int dim = 0; dim < tensor.ndim(); ++dim) text += (dim ? ", " : "(") + std::to_string(tensor.size(dim));
    return text + ")";
}

void require_rank(const char* name, const TensorView& tensor, int rank) {
    if (tensor.ndim() != rank)
        TVM_FFI_THROW(ValueError) << name << ": got rank " << tensor.ndim() << ", needs rank " << rank;
    for (int dim = 0; dim < rank; ++dim)
        if (tensor.size(dim) < 1 || tensor.size(dim) > tk::rotary::largest_size)
            TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs every size from 1 to "
                                      << tk::rotary::largest_size;
}

void require_device(const char* name, const TensorView& tensor, const TensorView& x) {
    const DLDevice got = tensor.device(), wanted = x.device();
    if (got.device_type != wanted.device_type || got.device_id != wanted.device_id)
        TVM_FFI_THROW(ValueError) << name << ": is on another device than x";
}

void require_table(const char* name, const TensorView& table, const TensorView& x, const TensorView& cosine) {
    require_rank(name, table, 2);
    require_device(name, table, x);
    if (!is(table.dtype(), kDLBfloat, 16) && !is(table.dtype(), kDLFloat, 32))
        TVM_FFI_THROW(ValueError) << name << ": got another dtype, needs bfloat16 or float32";
    if (table.dtype().bits != cosine.dtype().bits)
        TVM_FFI_THROW(ValueError) << name << ": got another dtype than cos, needs the same";
    if (table.size(0) != cosine.size(0) || table.size(1) != cosine.size(1))
        TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(table) << ", needs that of cos, "
                                  << shape_of(cosine);
}

// Whether a row is dense and every 16 bytes of it aligned. The stride of a dimension of size 1 means nothing.
bool is_addressable(const TensorView& tensor) {
    const int last = tensor.ndim() - 1, bytes = tensor.dtype().bits / 8;
    bool allowed = tensor.size(last) == 1 || tensor.stride(last) == 1;
    for (int dim = 0; dim < last; ++dim)
        allowed = allowed && (tensor.size(dim) == 1 ||
                              (tensor.stride(dim) > 0 && tensor.stride(dim) * bytes % std::int64_t(alignment) == 0));
    return allowed && reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % alignment == 0;
}

// Heads in dimension 1 and rows in dimension 2, or the other way round.
tk::rotary::heads as_heads(const TensorView& tensor, bool rows_first) {
    const auto stride = [&](int dim) { return tensor.size(dim) == 1 ? tensor.size(3) : tensor.stride(dim); };
    return {tensor.data_ptr(), stride(0), stride(rows_first ? 2 : 1), stride(rows_first ? 1 : 2)};
}

// Computes out from x, which it may be. Returns 0 when it is launched, else launches nothing and returns which operands
// need a dense copy: 1 for x, 2 for cos, 4 for sin.
std::int64_t rotary(TensorView x, TensorView cosine, TensorView sine, TensorView out, bool rows_first, bool interleaved,
                    bool conjugate) {
    require_rank("x", x, 4);
    require_rank("out", out, 4);
    for (const auto& [name, tensor] : {std::pair{"x", &x}, std::pair{"out", &out}})
        if (!is(tensor->dtype(), kDLBfloat, 16))
            TVM_FFI_THROW(ValueError) << name << ": got another dtype, needs bfloat16";
    require_device("out", out, x);
    require_table("cos", cosine, x, cosine);
    require_table("sin", sine, x, cosine);
    for (int dim = 0; dim < 4; ++dim)
        if (out.size(dim) != x.size(dim))
            TVM_FFI_THROW(ValueError) << "out: got shape " << shape_of(out) << ", needs that of x, " << shape_of(x);
    const std::int64_t N = x.size(rows_first ? 1 : 2), H = x.size(rows_first ? 2 : 1);
    if (cosine.size(0) < N)
        TVM_FFI_THROW(ValueError) << "cos: got " << cosine.size(0) << " rows, needs at least the " << N << " of x";
    const std::int64_t copies =
        (is_addressable(x) ? 0 : 1) | (is_addressable(cosine) ? 0 : 2) | (is_addressable(sine) ? 0 : 4);
    if (copies != 0) return copies;
    if (!is_addressable(out))
        TVM_FFI_THROW(ValueError) << "out: needs a dense last dimension, and base and strides of multiples of 16 bytes";
    const auto pitch = [](const TensorView& table) { return table.size(0) == 1 ? table.size(1) : table.stride(0); };
    const tk::rotary::problem problem{x.size(0),
                                      H,
                                      N,
                                      static_cast<int>(x.size(3)),
                                      static_cast<int>(2 * cosine.size(1)),
                                      interleaved,
                                      conjugate,
                                      cosine.dtype().bits == 32};
    const DLDevice device = x.device();
    try {
        tk::rotary::launch(as_heads(out, rows_first), as_heads(x, rows_first), cosine.data_ptr(), sine.data_ptr(),
                           pitch(cosine), pitch(sine), problem,
                           TVMFFIEnvGetStream(device.device_type, device.device_id));
    } catch (const std::invalid_argument& error) {
        TVM_FFI_THROW(ValueError) << error.what();
    } catch (const std::exception& error) {
        TVM_FFI_THROW(RuntimeError) << error.what();
    }
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rotary, rotary);
