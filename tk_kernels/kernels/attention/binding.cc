// Exports attention, forward and backward, to Python: checks every argument, then launches on the caller's stream.
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "attention.h"

namespace {

using tk::attention::problem;
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

void require_tensor(const char* name, const TensorView& tensor, int rank, const DLDataType& wanted) {
    if (tensor.ndim() != rank) {
        TVM_FFI_THROW(ValueError) << name << ": got rank " << tensor.ndim() << ", needs rank " << rank;
    }
    const DLDataType got = tensor.dtype();
    if (got.code != wanted.code || got.bits != wanted.bits || got.lanes != wanted.lanes) {
        // By numbers: tvm_ffi's own text throws for a type it has no name for, and a throw in here ends the process.
        TVM_FFI_THROW(ValueError) << name << ": got elements of DLPack code " << int(got.code) << " and "
                                  << int(got.bits) << " bits x " << got.lanes << ", needs "
                                  << tvm::ffi::DLDataTypeToString(wanted);
    }
    for (int dim = 0; dim < rank; ++dim) {
        if (tensor.size(dim) < 1 || tensor.size(dim) > largest_size) {
            TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs every size from 1 to "
                                      << largest_size;
        }
    }
}

void require_device(const char* name, const TensorView& tensor, const TensorView& q) {
    const DLDevice got = tensor.device(), wanted = q.device();
    if (got.device_type != wanted.device_type || got.device_id != wanted.device_id) {
        TVM_FFI_THROW(ValueError) << name << ": is on " << device_name(got) << ", needs to be on "
                                  << device_name(wanted) << " as q is";
    }
}

void require_shape(const char* name, const TensorView& tensor, const TensorView& like, const char* like_name) {
    for (int dim = 0; dim < tensor.ndim(); ++dim) {
        if (tensor.size(dim) != like.size(dim)) {
            TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs that of " << like_name
                                      << (tensor.ndim() == like.ndim() ? ", " : " without the last dimension of ")
                                      << shape_of(like);
        }
    }
}

// The problem that q, k and v pose together.
problem as_problem(const TensorView& q, const TensorView& k, const TensorView& v, bool causal, double scale) {
    require_tensor("q", q, 4, bfloat16);
    require_tensor("k", k, 4, bfloat16);
    require_tensor("v", v, 4, bfloat16);
    require_device("k", k, q);
    require_device("v", v, q);
    const std::int64_t dim = q.size(3);
    if (dim != 64 && dim != 128) TVM_FFI_THROW(ValueError) << "q: got head dim " << dim << ", supported are 64 and 128";
    if (k.size(3) != dim) {
        TVM_FFI_THROW(ValueError) << "k: got head dim " << k.size(3) << ", needs " << dim << " as q has";
    }
    if (k.size(0) != q.size(0)) {
        TVM_FFI_THROW(ValueError) << "k: got batch " << k.size(0) << ", needs " << q.size(0) << " as q has";
    }
    if (q.size(1) % k.size(1) != 0) {
        TVM_FFI_THROW(ValueError) << "k: got " << k.size(1) << " heads, needs a divisor of the " << q.size(1)
                                  << " heads of q";
    }
    require_shape("v", v, k, "k");
    if (!(scale >= 0 && scale <= std::numeric_limits<float>::max())) {
        TVM_FFI_THROW(ValueError) << "scale: got " << scale
                                  << ", needs a finite number in float32, not below 0 for the operator itself";
    }
    return {q.size(0), q.size(1),
            k.size(1), q.size(2),
            k.size(2), static_cast<int>(dim),
            causal,    static_cast<float>(scale)};
}

// The stride of a dimension of size 1 means nothing: a dense row stands for it.
tk::attention::tensor as_tensor(const TensorView& tensor) {
    const auto stride = [&](int dim) { return tensor.size(dim) == 1 ? tensor.size(3) : tensor.stride(dim); };
    return {tensor.data_ptr(), stride(0), stride(1), stride(2)};
}

// Whether the TMA can address the tensor where it lies; if not, the caller makes a dense copy.
bool is_addressable(const TensorView& tensor) {
    const tk::attention::tensor t = as_tensor(tensor);
    const auto allowed = [](std::int64_t stride) { return stride > 0 && stride % stride_alignment == 0; };
    return tensor.stride(3) == 1 && allowed(t.batch_stride) && allowed(t.head_stride) && allowed(t.row_stride) &&
           reinterpret_cast<std::uintptr_t>(t.data) % base_alignment == 0;
}

// A tensor that is written: its rows must not meet.
void require_output(const char* name, const TensorView& tensor, const TensorView& like, const char* like_name) {
    require_tensor(name, tensor, 4, bfloat16);
    require_device(name, tensor, like);
    require_shape(name, tensor, like, like_name);
    std::int64_t dims[] = {0, 1, 2}, needed = tensor.size(3);
    std::sort(dims, dims + 3, [&](std::int64_t x, std::int64_t y) { return tensor.stride(x) < tensor.stride(y); });
    bool apart = is_addressable(tensor);
    for (const std::int64_t dim : dims) {
        if (tensor.size(dim) == 1) continue;
        apart = apart && tensor.stride(dim) >= needed;
        needed = tensor.stride(dim) * tensor.size(dim);
    }
    if (!apart) {
        TVM_FFI_THROW(ValueError) << name << ": needs a 16-byte aligned base, unit stride along the last dimension, "
                                  << "other strides that are multiples of 8, and no element twice";
    }
}

void require_lse(const TensorView& lse, const TensorView& q) {
    require_tensor("lse", lse, 3, float32);
    require_device("lse", lse, q);
    require_shape("lse", lse, q, "q");
    if (!lse.IsContiguous()) TVM_FFI_THROW(ValueError) << "lse: needs to be contiguous";
}

// What C++ throws, as Python's exceptions.
template <typename F>
void launching(const F& launch) {
    try {
        launch();
    } catch (const tvm::ffi::Error&) {
        throw;
    } catch (const std::invalid_argument& error) {
        TVM_FFI_THROW(ValueError) << error.what();
    } catch (const std::exception& error) {
        TVM_FFI_THROW(RuntimeError) << error.what();
    }
}

void* stream_of(const TensorView& tensor) {
    const DLDevice device = tensor.device();
    return TVMFFIEnvGetStream(device.device_type, device.device_id);
}

// Writes out and lse. Returns 0 when it is launched, else launches nothing and returns which operands need a copy that
// the TMA can address: 1 for q, 2 for k, 4 for v.
std::int64_t attention_forward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView lse, bool causal,
                               double scale, std::int64_t order, std::int64_t synchronous, std::int64_t blocks_per_sm) {
    const problem p = as_problem(q, k, v, causal, scale);
    for (const auto& [name, tensor] : {std::pair{"q", q}, std::pair{"k", k}, std::pair{"v", v}}) {
        if (tensor.stride(3) != 1) {
            TVM_FFI_THROW(ValueError) << name << ": got stride " << tensor.stride(3)
                                      << " along the last dimension, needs 1";
        }
    }
    require_output("out", out, q, "q");
    require_lse(lse, q);
    const std::int64_t copies = (is_addressable(q) ? 0 : 1) | (is_addressable(k) ? 0 : 2) | (is_addressable(v) ? 0 : 4);
    if (copies != 0) return copies;
    const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
    launching([&] {
        tk::attention::forward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out),
                               static_cast<float*>(lse.data_ptr()),
                               {narrow(order), narrow(synchronous), narrow(blocks_per_sm)}, stream_of(q));
    });
    return 0;
}

// Writes dq, dk and dv. Returns as attention_forward does; 8 stands for out, 16 for dout.
std::int64_t attention_backward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView dout,
                                TensorView lse, TensorView dq, TensorView dk, TensorView dv, bool causal, double scale,
                                bool deterministic) {
    const problem p = as_problem(q, k, v, causal, scale);
    require_tensor("out", out, 4, bfloat16);
    require_device("out", out, q);
    require_shape("out", out, q, "q");
    require_lse(lse, q);
    require_tensor("dout", dout, 4, bfloat16);
    require_device("dout", dout, q);
    require_shape("dout", dout, q, "q");
    require_output("dq", dq, q, "q");
    require_output("dk", dk, k, "k");
    require_output("dv", dv, v, "v");
    const std::int64_t copies = (is_addressable(q) ? 0 : 1) | (is_addressable(k) ? 0 : 2) |
                                (is_addressable(v) ? 0 : 4) | (is_addressable(out) ? 0 : 8) |
                                (is_addressable(dout) ? 0 : 16);
    if (copies != 0) return copies;
    launching([&] {
        const std::int64_t elements = std::max<std::int64_t>(1, tk::attention::backward_scratch(p, deterministic));
        const Tensor scratch = Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {elements}, float32, q.device());
        tk::attention::backward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out),
                                static_cast<const float*>(lse.data_ptr()), as_tensor(dout), as_tensor(dq),
                                as_tensor(dk), as_tensor(dv), static_cast<float*>(scratch.data_ptr()), deterministic,
                                stream_of(q));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_forward, attention_forward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_backward, attention_backward);
