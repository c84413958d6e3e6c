// Exports Hedgehog attention to Python: checks every argument, then launches on the caller's stream.
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hedgehog.h"

namespace {

using tvm::ffi::Tensor;
using tvm::ffi::TensorView;

constexpr std::int64_t head_dim = 128, feature_dim = 64;
constexpr std::uintptr_t base_alignment = 16;  // of a TMA's global address, bytes
constexpr std::int64_t stride_alignment = 8;   // of a TMA's strides, elements
constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();
constexpr DLDataType bfloat16{kDLBfloat, 16, 1}, float32{kDLFloat, 32, 1};

std::string words(const std::int64_t* sizes, int rank) {
    std::string text;
    for (int dim = 0; dim < rank; ++dim) text += (dim ? ", " : "(") + std::to_string(sizes[dim]);
    return text + ")";
}
std::string shape_of(const TensorView& tensor) {
    std::vector<std::int64_t> sizes;
    for (int dim = 0; dim < tensor.ndim(); ++dim) sizes.push_back(tensor.size(dim));
    return words(sizes.data(), tensor.ndim());
}

std::string device_name(const DLDevice& device) {
    return device.device_type == kDLCPU ? "cpu" : "cuda:" + std::to_string(device.device_id);
}

void require_tensor(const char* name, const TensorView& tensor, int rank, const DLDataType& wanted,
                    const TensorView& q) {
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
    const DLDevice where = tensor.device(), device = q.device();
    if (where.device_type != device.device_type || where.device_id != device.device_id) {
        TVM_FFI_THROW(ValueError) << name << ": is on " << device_name(where) << ", needs to be on "
                                  << device_name(device) << " as q is";
    }
}

void require_shape(const char* name, const TensorView& tensor, std::initializer_list<std::int64_t> wanted) {
    int dim = 0;
    for (const std::int64_t size : wanted) {
        if (tensor.size(dim++) != size) {
            TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs "
                                      << words(wanted.begin(), static_cast<int>(wanted.size()));
        }
    }
}

// The stride of a dimension of size 1 means nothing: a dense row stands for it.
tk::hedgehog::tensor as_tensor(const TensorView& tensor) {
    const auto stride = [&](int dim) { return tensor.size(dim) == 1 ? tensor.size(3) : tensor.stride(dim); };
    return {tensor.data_ptr(), stride(0), stride(1), stride(2)};
}

bool is_aligned(const TensorView& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % base_alignment == 0;
}

// Whether the TMA can address the tensor where it lies; if not, the caller makes a dense copy.
bool is_addressable(const TensorView& tensor) {
    const tk::hedgehog::tensor t = as_tensor(tensor);
    const auto allowed = [](std::int64_t stride) { return stride > 0 && stride % stride_alignment == 0; };
    return tensor.stride(3) == 1 && allowed(t.batch_stride) && allowed(t.head_stride) && allowed(t.row_stride) &&
           is_aligned(tensor);
}

// `out` is written: its rows must not meet.
void require_output(const TensorView& out) {
    std::int64_t dims[] = {0, 1, 2}, needed = out.size(3);
    std::sort(dims, dims + 3, [&](std::int64_t x, std::int64_t y) { return out.stride(x) < out.stride(y); });
    bool apart = is_addressable(out);
    for (const std::int64_t dim : dims) {
        if (out.size(dim) == 1) continue;
        apart = apart && out.stride(dim) >= needed;
        needed = out.stride(dim) * out.size(dim);
    }
    if (!apart) {
        TVM_FFI_THROW(ValueError) << "out: needs a 16-byte aligned base, unit stride along the last dimension, other "
                                  << "strides that are multiples of 8, and no element twice";
    }
}

void require_state(const char* name, const TensorView& state, int rank, std::initializer_list<std::int64_t> wanted,
                   const TensorView& q) {
    require_tensor(name, state, rank, float32, q);
    require_shape(name, state, wanted);
    if (!state.IsContiguous()) TVM_FFI_THROW(ValueError) << name << ": needs to be contiguous";
}

// Writes out and, unless they are empty, the states. `segments` of a sequence, or -1 to choose. Returns 0 when it is
// launched, else launches nothing and returns which operands need a dense copy: bit i for the i-th argument.
std::int64_t hedgehog(TensorView q, TensorView k, TensorView v, TensorView q_map, TensorView k_map, TensorView alpha,
                      TensorView beta, TensorView out, TensorView k_state, TensorView kv_state, std::int64_t segments) {
    require_tensor("q", q, 4, bfloat16, q);
    if (q.size(3) != head_dim) {
        TVM_FFI_THROW(ValueError) << "q: got head dim " << q.size(3) << ", supported is " << head_dim;
    }
    const std::int64_t B = q.size(0), H = q.size(1), N = q.size(2);
    for (const auto& [name, tensor] : {std::pair{"k", k}, std::pair{"v", v}, std::pair{"out", out}}) {
        require_tensor(name, tensor, 4, bfloat16, q);
        require_shape(name, tensor, {B, H, N, head_dim});
    }
    for (const auto& [name, map] : {std::pair{"q_map", q_map}, std::pair{"k_map", k_map}}) {
        require_tensor(name, map, 3, bfloat16, q);
        require_shape(name, map, {H, head_dim, feature_dim});
    }
    for (const auto& [name, weight] : {std::pair{"alpha", alpha}, std::pair{"beta", beta}}) {
        require_tensor(name, weight, 1, float32, q);
        require_shape(name, weight, {H});
    }
    require_output(out);
    const bool finals = kv_state.numel() > 0;
    if (finals) {
        require_state("k_state", k_state, 3, {B, H, 2 * feature_dim}, q);
        require_state("kv_state", kv_state, 4, {B, H, 2 * feature_dim, head_dim}, q);
    }
    std::int64_t copies = 0, bit = 1;
    for (const TensorView& tensor : {q, k, v}) {
        if (!is_addressable(tensor)) copies |= bit;
        bit *= 2;
    }
    for (const TensorView& tensor : {q_map, k_map, alpha, beta}) {
        if (!tensor.IsContiguous() || (tensor.ndim() == 3 && !is_aligned(tensor))) copies |= bit;
        bit *= 2;
    }
    if (copies != 0) return copies;
    try {
        const tk::hedgehog::problem p{B, H, N};
        const int wanted = static_cast<int>(std::clamp<std::int64_t>(segments, -1, 1000));
        const int count = tk::hedgehog::segments(p, wanted);
        const std::int64_t elements = std::max<std::int64_t>(1, tk::hedgehog::scratch_elements(p, count));
        const Tensor scratch = Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {elements}, float32, q.device());
        const auto numbers = [](const TensorView& tensor) { return static_cast<float*>(tensor.data_ptr()); };
        const DLDevice device = q.device();
        tk::hedgehog::forward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out),
                              {q_map.data_ptr(), k_map.data_ptr(), numbers(alpha), numbers(beta)},
                              {finals ? numbers(k_state) : nullptr, finals ? numbers(kv_state) : nullptr}, count,
                              numbers(scratch), TVMFFIEnvGetStream(device.device_type, device.device_id));
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

TVM_FFI_DLL_EXPORT_TYPED_FUNC(hedgehog, hedgehog);
