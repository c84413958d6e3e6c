// What the bindings share: where tensors lie, and the launch. Operators have checked their operands (ops/contract.py).
// Plain C++, for both targets.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>

#include "tk/tensor.h"

namespace tk::binding {

using tvm::ffi::Optional;
using tvm::ffi::Tensor;
using tvm::ffi::TensorView;

constexpr std::int64_t alignment = 16;  // bytes, of the addresses and strides that the kernels read
constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();
constexpr DLDataType bfloat16{kDLBfloat, 16, 1}, float32{kDLFloat, 32, 1}, int32{kDLInt, 32, 1};

inline bool is_type(const TensorView& tensor, const DLDataType& wanted) {
    const DLDataType got = tensor.dtype();
    return got.code == wanted.code && got.bits == wanted.bits && got.lanes == wanted.lanes;
}
inline bool is_beside(const TensorView& tensor, const TensorView& first) {
    const DLDevice got = tensor.device(), wanted = first.device();
    return got.device_type == wanted.device_type && got.device_id == wanted.device_id;
}

// The stride of a dimension of size 1 means nothing: a dense row stands for it.
inline std::int64_t stride_of(const TensorView& tensor, int dim) {
    return tensor.size(dim) == 1 ? tensor.size(tensor.ndim() - 1) : tensor.stride(dim);
}

inline bool is_aligned(const TensorView& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % alignment == 0;
}
inline bool is_dense(const TensorView& tensor) { return tensor.IsContiguous() && is_aligned(tensor); }

// Whether a kernel can read the tensor where it lies: its rows are dense, and they and the base are aligned. If not,
// the caller makes a dense copy.
inline bool is_addressable(const TensorView& tensor) {
    const int last = tensor.ndim() - 1, bytes = tensor.dtype().bits / 8;
    bool allowed = is_aligned(tensor) && (tensor.size(last) == 1 || tensor.stride(last) == 1);
    for (int dim = 0; dim < last; ++dim) {
        const std::int64_t stride = tensor.stride(dim);
        allowed = allowed && (tensor.size(dim) == 1 || (stride > 0 && stride * bytes % alignment == 0));
    }
    return allowed;
}
// Bit i for the i-th operand, where it needs a copy.
inline std::int64_t copies_of(std::initializer_list<TensorView> operands) {
    std::int64_t copies = 0, bit = 1;
    for (const TensorView& operand : operands) {
        if (!is_addressable(operand)) copies |= bit;
        bit *= 2;
    }
    return copies;
}

// A tensor of rank 4 that is written where it lies: addressable, and its rows do not meet.
inline void require_output(const char* name, const TensorView& tensor) {
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
                                  << "other strides that are multiples of 16 bytes, and no element twice";
    }
}

// What the operator has checked, or allocated: fp32 numbers that lie one after another, null where they are not given.
inline float* numbers(const TensorView& tensor) { return static_cast<float*>(tensor.data_ptr()); }
inline float* numbers(const Optional<TensorView>& tensor) {
    return tensor.has_value() ? numbers(tensor.value()) : nullptr;
}

// Which dimensions of an operand are heads and rows: (batch, heads, rows, dim), or (batch, rows, heads, dim).
struct dimensions {
    int heads, rows;
};
constexpr dimensions heads_first{1, 2}, rows_first{2, 1};

// A tensor as the kernels take it.
inline tensor as_tensor(const TensorView& view, const dimensions& where = heads_first) {
    return {view.data_ptr(), stride_of(view, 0), stride_of(view, where.heads), stride_of(view, where.rows)};
}

inline void* stream_of(const TensorView& tensor) {
    const DLDevice device = tensor.device();
    return TVMFFIEnvGetStream(device.device_type, device.device_id);
}
// fp32 memory from PyTorch's allocator, beside `tensor`; at least one element of it.
inline Tensor scratch(std::int64_t elements, const TensorView& tensor) {
    const std::int64_t count = std::max<std::int64_t>(1, elements);
    return Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {count}, float32, tensor.device());
}
inline float* data_of(const Tensor& tensor) { return static_cast<float*>(tensor.data_ptr()); }

// An option as the kernels take it; what no int holds is as wrong as the largest one.
inline int narrow(std::int64_t value) {
    return static_cast<int>(std::clamp<std::int64_t>(value, std::numeric_limits<int>::min(), largest_size));
}

// What C++ throws, as Python's exceptions.
template <typename Launch> void launching(const Launch& launch) {
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

// The same of blocks that wait for one another. Where CUDA refuses because a wait of an earlier launch never ended,
// says which.
template <typename Launch> void launching_blocks(const Launch& launch, std::string (*stalled)()) {
    launching([&] {
        try {
            launch();
        } catch (const std::runtime_error& error) {
            const std::string words = stalled();
            if (words.empty()) throw;
            throw std::runtime_error(words + "; since then: " + error.what());
        }
    });
}

}  // namespace tk::binding
