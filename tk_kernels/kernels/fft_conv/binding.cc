// Exports the long convolution to Python: checks every argument, then launches on the caller's stream.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>

#include "fft_conv.h"

namespace {

using tvm::ffi::TensorView;

constexpr std::uintptr_t base_alignment = 16;  // of a TMA's global address, bytes
constexpr std::int64_t stride_alignment = 8;   // of a TMA's strides, elements
constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t columns = tk::fft_conv::columns, tile_rows = tk::fft_conv::tile_rows;

std::string shape_of(const TensorView& tensor) {
    std::string text;
    for (int dim = 0; dim < tensor.ndim(); ++dim) text += (dim ? ", " : "(") + std::to_string(tensor.size(dim));
    return text + ")";
}

std::string device_name(const DLDevice& device) {
    return device.device_type == kDLCPU ? "cpu" : "cuda:" + std::to_string(device.device_id);
}

void require_tensor(const char* name, const TensorView& tensor, int rank, const TensorView& u) {
    if (tensor.ndim() != rank)
        TVM_FFI_THROW(ValueError) << name << ": got rank " << tensor.ndim() << ", needs rank " << rank;
    const DLDataType got = tensor.dtype();
    if (got.code != kDLBfloat || got.bits != 16 || got.lanes != 1) {
        // By numbers: tvm_ffi's own text throws for a type it has no name for, and a throw in here ends the process.
        TVM_FFI_THROW(ValueError) << name << ": got elements of DLPack code " << int(got.code) << " and "
                                  << int(got.bits) << " bits x " << got.lanes << ", needs bfloat16";
    }
    for (int dim = 0; dim < rank; ++dim) {
        if (tensor.size(dim) < 1 || tensor.size(dim) > largest_size) {
            TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs every size from 1 to "
                                      << largest_size;
        }
    }
    const DLDevice is = tensor.device(), needed = u.device();
    if (is.device_type != needed.device_type || is.device_id != needed.device_id) {
        TVM_FFI_THROW(ValueError) << name << ": is on " << device_name(is) << ", needs to be on " << device_name(needed)
                                  << " as u is";
    }
}

void require_shape(const char* name, const TensorView& tensor, std::initializer_list<std::int64_t> wanted) {
    std::string text;
    bool same = true;
    int dim = 0;
    for (const std::int64_t size : wanted) {
        text += (dim ? ", " : "(") + std::to_string(size);
        same = same && tensor.size(dim++) == size;
    }
    if (!same) TVM_FFI_THROW(ValueError) << name << ": got shape " << shape_of(tensor) << ", needs " << text << ")";
}

// The stride of a dimension of size 1 means nothing: a dense sequence stands for it.
tk::fft_conv::tensor as_tensor(const TensorView& tensor) {
    const auto stride = [&](int dim) { return tensor.size(dim) == 1 ? tensor.size(2) : tensor.stride(dim); };
    return {tensor.data_ptr(), stride(0), stride(1)};
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % base_alignment == 0; }

// Whether the TMA can address the tensor where it lies; if not, the caller makes a dense copy.
bool is_addressable(const TensorView& tensor) {
    const tk::fft_conv::tensor t = as_tensor(tensor);
    const auto allowed = [](std::int64_t stride) { return stride > 0 && stride % stride_alignment == 0; };
    return tensor.stride(2) == 1 && allowed(t.batch_stride) && allowed(t.channel_stride) && is_aligned(t.data);
}

bool is_dense(const TensorView& tensor) { return tensor.IsContiguous() && is_aligned(tensor.data_ptr()); }

// u, y: (B, D, length); spectrum: (D, 2, rows, 64); constants: (constant_rows, 64). Returns 0 when it is launched, else launches
// nothing and returns which operands need a dense copy: 1 for u, 2 for spectrum.
std::int64_t fft_conv(TensorView u, TensorView spectrum, TensorView constants, TensorView y) {
    require_tensor("u", u, 3, u);
    require_tensor("k_f", spectrum, 4, u);
    require_tensor("constants", constants, 2, u);
    require_tensor("y", y, 3, u);
    const std::int64_t batch = u.size(0), channels = u.size(1), length = u.size(2), rows = spectrum.size(2);
    require_shape("k_f", spectrum, {channels, 2, rows, columns});
    require_shape("constants", constants, {tk::fft_conv::constant_rows, columns});
    require_shape("y", y, {batch, channels, length});
    const std::int64_t multiple = rows == tile_rows ? 2 * columns : columns;
    if (length % multiple != 0 || length > rows * columns) {
        TVM_FFI_THROW(ValueError) << "u: got length " << length << ", needs a multiple of " << multiple << " up to "
                                  << rows * columns;
    }
    if (!is_addressable(y)) TVM_FFI_THROW(ValueError) << "y: needs aligned strides and base";
    if (!is_dense(constants)) TVM_FFI_THROW(ValueError) << "constants: need to be dense";
    const std::int64_t copies = (is_addressable(u) ? 0 : 1) | (is_dense(spectrum) ? 0 : 2);
    if (copies != 0) return copies;
    const DLDevice device = u.device();
    try {
        tk::fft_conv::launch({batch, channels, length, rows}, as_tensor(u), as_tensor(y), spectrum.data_ptr(),
                             constants.data_ptr(), TVMFFIEnvGetStream(device.device_type, device.device_id));
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

TVM_FFI_DLL_EXPORT_TYPED_FUNC(fft_conv, fft_conv);
