// Exports Based to Python: checks every argument, then launches on the caller's stream.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "based.h"

namespace {

using tk::based::problem;
using tvm::ffi::Optional;
using tvm::ffi::Tensor;
using tvm::ffi::TensorView;

constexpr std::uintptr_t base_alignment = 16;  // of a TMA's global address, bytes
constexpr std::int64_t stride_alignment = 8;   // of a TMA's strides, elements
constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();
constexpr DLDataType bfloat16{kDLBfloat, 16, 1}, float32{kDLFloat, 32, 1};

std::string shape_of(const TensorView& tensor) {
    std::string text;
    for (int dim = 0; dim < tensor.ndim(); ++dim) text += (dim ? ", " : "(") + std::to_string(tensor.size(dim));
    return text + ")";
}

std::string device_name(const DLDevice& device) {
    return device.device_type == kDLCPU ? "cpu" : "cuda:" + std::to_string(device.device_id);
}

void require_tensor(const char* name, const TensorView& tensor, const DLDataType& wanted, const TensorView& q) {
    if (tensor.ndim() != 4) TVM_FFI_THROW(ValueError) << name << ": got rank " << tensor.ndim() << ", needs rank 4";
    const DLDataType got = tensor.dtype();
    if (got.code != wanted.code || got.bits != wanted.bits || got.lanes != wanted.lanes) {
        // By numbers: tvm_ffi's own text throws for a type it has no name for, and a throw in here ends the process.
        TVM_FFI_THROW(ValueError) << name << ": got elements of DLPack code " << int(got.code) << " and "
                                  << int(got.bits) << " bits x " << got.lanes << ", needs "
                                  << tvm::ffi::DLDataTypeToString(wanted);
    }
    for (int dim = 0; dim < 4; ++dim) {
        if (tensor.size(dim) < 1 || tensor.size(dim) > largest_size) {
            TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs every size from 1 to "
                                      << largest_size;
        }
    }
    const DLDevice is = tensor.device(), needed = q.device();
    if (is.device_type != needed.device_type || is.device_id != needed.device_id) {
        TVM_FFI_THROW(ValueError) << name << ": is on " << device_name(is) << ", needs to be on " << device_name(needed)
                                  << " as q is";
    }
}

void require_shape(const char* name, const TensorView& tensor, std::int64_t batch, std::int64_t heads,
                   std::int64_t rows, std::int64_t dim) {
    if (tensor.size(0) != batch || tensor.size(1) != heads || tensor.size(2) != rows || tensor.size(3) != dim) {
        TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs (" << batch << ", " << heads
                                  << ", " << rows << ", " << dim << ")";
    }
}

// The stride of a dimension of size 1 means nothing: a dense row stands for it.
tk::based::tensor as_tensor(const TensorView& tensor) {
    const auto stride = [&](int dim) { return tensor.size(dim) == 1 ? tensor.size(3) : tensor.stride(dim); };
    return {tensor.data_ptr(), stride(0), stride(1), stride(2)};
}

// Whether the TMA can address the tensor where it lies; if not, the caller makes a dense copy.
bool is_addressable(const TensorView& tensor) {
    const tk::based::tensor t = as_tensor(tensor);
    const auto allowed = [](std::int64_t stride) { return stride > 0 && stride % stride_alignment == 0; };
    return tensor.stride(3) == 1 && allowed(t.batch_stride) && allowed(t.head_stride) && allowed(t.row_stride) &&
           reinterpret_cast<std::uintptr_t>(t.data) % base_alignment == 0;
}

float* state_data(const char* name, const Optional<TensorView>& tensor, const TensorView& q, std::int64_t rows,
                  std::int64_t cols) {
    if (!tensor.has_value()) return nullptr;
    require_tensor(name, *tensor, float32, q);
    require_shape(name, *tensor, q.size(0), q.size(1), rows, cols);
    if (!(*tensor).IsContiguous()) TVM_FFI_THROW(ValueError) << name << ": needs to be contiguous";
    return static_cast<float*>((*tensor).data_ptr());
}

// Writes out, and the state in the kernel's own order where it is given. Returns 0 when it is launched, else launches
// nothing and returns which operands need a copy that the TMA can address: 1 for q, 2 for k, 4 for v.
std::int64_t based(TensorView q, TensorView k, TensorView v, TensorView out, Optional<TensorView> state,
                   Optional<TensorView> pairs, bool normalize, std::int64_t segments) {
    require_tensor("q", q, bfloat16, q);
    require_tensor("k", k, bfloat16, q);
    require_tensor("v", v, bfloat16, q);
    require_tensor("out", out, bfloat16, q);
    const std::int64_t batch = q.size(0), heads = q.size(1), rows = q.size(2);
    require_shape("q", q, batch, heads, rows, tk::based::feature_dim);
    require_shape("k", k, batch, heads, rows, tk::based::feature_dim);
    require_shape("v", v, batch, heads, rows, tk::based::value_dim);
    require_shape("out", out, batch, heads, rows, tk::based::value_dim);
    if (segments < 0 || segments > tk::based::most_segments) {
        TVM_FFI_THROW(ValueError) << "segments: got " << segments << ", needs 0 (chosen by shape) to "
                                  << tk::based::most_segments;
    }
    float* const state_to = state_data("state", state, q, tk::based::features, tk::based::value_dim);
    float* const pairs_to = state_data("pairs", pairs, q, tk::based::pair_rows, tk::based::feature_dim);
    if (!is_addressable(out)) TVM_FFI_THROW(ValueError) << "out: needs aligned strides and base";
    const std::int64_t copies = (is_addressable(q) ? 0 : 1) | (is_addressable(k) ? 0 : 2) | (is_addressable(v) ? 0 : 4);
    if (copies != 0) return copies;
    const problem p{batch, heads, rows, normalize};
    const tk::based::options options{static_cast<int>(segments)};
    const DLDevice device = q.device();
    try {
        const std::int64_t cut = tk::based::segments(p, options);
        Tensor scratch;
        if (cut > 1) {
            const std::int64_t elements =
                batch * heads * (cut - 1) * (tk::based::state_elements + tk::based::pair_elements);
            scratch = Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {elements}, float32, device);
        }
        tk::based::launch(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), state_to, pairs_to,
                          cut > 1 ? static_cast<float*>(scratch.data_ptr()) : nullptr, options,
                          TVMFFIEnvGetStream(device.device_type, device.device_id));
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

TVM_FFI_DLL_EXPORT_TYPED_FUNC(based, based);
