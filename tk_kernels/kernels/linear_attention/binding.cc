// Exports linear attention and Mamba-2's scan to Python: checks every argument, then launches on the caller's stream.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "linear_attention.h"

namespace {

namespace la = tk::linear_attention;
using tvm::ffi::Optional;
using tvm::ffi::Tensor;
using tvm::ffi::TensorView;

constexpr std::uintptr_t base_alignment = 16;  // of a TMA's global address, bytes
constexpr std::int64_t stride_alignment = 8;   // of a TMA's strides, elements
constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();
constexpr DLDataType bfloat16{kDLBfloat, 16, 1}, float32{kDLFloat, 32, 1};

std::string text_of(const std::vector<std::int64_t>& sizes) {
    std::string text;
    for (std::size_t dim = 0; dim < sizes.size(); ++dim) text += (dim ? ", " : "(") + std::to_string(sizes[dim]);
    return text + ")";
}

std::vector<std::int64_t> shape_of(const TensorView& tensor) {
    std::vector<std::int64_t> sizes;
    for (int dim = 0; dim < tensor.ndim(); ++dim) sizes.push_back(tensor.size(dim));
    return sizes;
}

std::string device_name(const DLDevice& device) {
    return device.device_type == kDLCPU ? "cpu" : "cuda:" + std::to_string(device.device_id);
}

bool is_type(const TensorView& tensor, const DLDataType& wanted) {
    const DLDataType got = tensor.dtype();
    return got.code == wanted.code && got.bits == wanted.bits && got.lanes == wanted.lanes;
}

void require_tensor(const char* name, const TensorView& tensor, int rank, const DLDataType& wanted) {
    if (tensor.ndim() != rank) {
        TVM_FFI_THROW(ValueError) << name << ": got rank " << tensor.ndim() << ", needs rank " << rank;
    }
    if (!is_type(tensor, wanted)) {
        const DLDataType got = tensor.dtype();
        // By numbers: tvm_ffi's own text throws for a type it has no name for, and a throw in here ends the process.
        TVM_FFI_THROW(ValueError) << name << ": got elements of DLPack code " << int(got.code) << " and "
                                  << int(got.bits) << " bits x " << got.lanes << ", needs "
                                  << tvm::ffi::DLDataTypeToString(wanted);
    }
    for (const std::int64_t size : shape_of(tensor)) {
        if (size < 1 || size > largest_size) {
            TVM_FFI_THROW(ValueError) << name << ": got shape " << text_of(shape_of(tensor))
                                      << ", needs every size from 1 to " << largest_size;
        }
    }
}

// What the other arguments are compared with: the first operand.
struct reference {
    const char* name;
    const TensorView& tensor;

    void require_device(const char* other_name, const TensorView& other) const {
        const DLDevice got = other.device(), wanted = tensor.device();
        if (got.device_type != wanted.device_type || got.device_id != wanted.device_id) {
            TVM_FFI_THROW(ValueError) << other_name << ": is on " << device_name(got) << ", needs to be on "
                                      << device_name(wanted) << " as " << name << " is";
        }
    }
};

void require_shape(const char* name, const TensorView& tensor, const std::vector<std::int64_t>& wanted,
                   const char* why) {
    if (shape_of(tensor) != wanted) {
        TVM_FFI_THROW(ValueError) << name << ": got shape " << text_of(shape_of(tensor)) << ", needs "
                                  << text_of(wanted) << ", " << why;
    }
}

void require_dim(const char* name, const char* what, std::int64_t dim) {
    if (dim != 64 && dim != 128) {
        TVM_FFI_THROW(ValueError) << name << ": got " << what << " " << dim << ", supported are 64 and 128";
    }
}

// A tensor of fp32 numbers that lie one after another; its data, or null.
float* dense(const char* name, const Optional<TensorView>& given, const std::vector<std::int64_t>& shape,
             const char* why, const reference& first) {
    if (!given.has_value()) return nullptr;
    const TensorView tensor = given.value();
    require_tensor(name, tensor, int(shape.size()), float32);
    first.require_device(name, tensor);
    require_shape(name, tensor, shape, why);
    if (!tensor.IsContiguous()) TVM_FFI_THROW(ValueError) << name << ": needs to be contiguous";
    return static_cast<float*>(tensor.data_ptr());
}

// Which dimensions of an operand are heads and rows: (batch, heads, rows, dim), or Mamba's (batch, rows, heads, dim).
struct dimensions {
    int heads, rows;
};
constexpr dimensions heads_first{1, 2}, rows_first{2, 1};

// The stride of a dimension of size 1 means nothing: a dense row stands for it.
la::tensor as_tensor(const TensorView& tensor, const dimensions& where) {
    const auto stride = [&](int dim) { return tensor.size(dim) == 1 ? tensor.size(3) : tensor.stride(dim); };
    return {tensor.data_ptr(), stride(0), stride(where.heads), stride(where.rows)};
}

// Whether the TMA can address the tensor where it lies; if not, the caller makes a dense copy.
bool is_addressable(const TensorView& tensor) {
    const la::tensor t = as_tensor(tensor, heads_first);
    const auto allowed = [](std::int64_t stride) { return stride > 0 && stride % stride_alignment == 0; };
    return tensor.stride(3) == 1 && allowed(t.batch_stride) && allowed(t.head_stride) && allowed(t.row_stride) &&
           reinterpret_cast<std::uintptr_t>(t.data) % base_alignment == 0;
}

void require_unit_stride(const char* name, const TensorView& tensor, int dim) {
    if (tensor.size(dim) != 1 && tensor.stride(dim) != 1) {
        TVM_FFI_THROW(ValueError) << name << ": got stride " << tensor.stride(dim)
                                  << " along the last dimension, needs 1";
    }
}

// A tensor that is written: its rows must not meet.
void require_output(const TensorView& out, const TensorView& like, const reference& first) {
    require_tensor("out", out, 4, bfloat16);
    first.require_device("out", out);
    require_shape("out", out, shape_of(like), "that of the values");
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

void start(const la::problem& p, const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const dimensions& where, const la::decays& decays, const la::states& states, const la::skip& skip,
           std::int64_t segments) {
    launching([&] {
        const la::options options{static_cast<int>(std::clamp<std::int64_t>(segments, -1, largest_size))};
        const std::int64_t elements = la::scratch_elements(p, options);
        Tensor scratch;
        if (elements > 0) scratch = Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {elements}, float32, v.device());
        const DLDevice device = v.device();
        la::forward(p, as_tensor(q, where), as_tensor(k, where), as_tensor(v, where), as_tensor(out, where), decays,
                    states, skip, elements > 0 ? static_cast<float*>(scratch.data_ptr()) : nullptr, options,
                    TVMFFIEnvGetStream(device.device_type, device.device_id));
    });
}

// q, k: (batch, groups, rows, key_dim), v, out: (batch, heads, rows, value_dim), log_decay: (heads) or (batch, heads,
// rows). Returns 0 when it is launched, else launches nothing and returns which operands need a copy that the TMA can
// address: 1 for q, 2 for k, 4 for v.
std::int64_t linear_attention(TensorView q, TensorView k, TensorView v, TensorView out, Optional<TensorView> log_decay,
                              double scale, Optional<TensorView> initial_state, Optional<TensorView> final_state,
                              std::int64_t segments) {
    require_tensor("q", q, 4, bfloat16);
    require_tensor("k", k, 4, bfloat16);
    require_tensor("v", v, 4, bfloat16);
    const reference first{"q", q};
    first.require_device("k", k);
    first.require_device("v", v);
    require_shape("k", k, shape_of(q), "that of q");
    const std::int64_t B = q.size(0), G = q.size(1), N = q.size(2), H = v.size(1);
    require_dim("q", "head dim", q.size(3));
    require_dim("v", "head dim", v.size(3));
    require_shape("v", v, {B, H, N, v.size(3)}, "batch and rows of q");
    if (H % G != 0) TVM_FFI_THROW(ValueError) << "q: got " << G << " heads, needs a divisor of the " << H << " of v";
    if (!(std::fabs(scale) <= std::numeric_limits<float>::max())) {
        TVM_FFI_THROW(ValueError) << "scale: got " << scale << ", needs a finite number in float32";
    }
    for (const auto& [name, tensor] : {std::pair{"q", q}, std::pair{"k", k}, std::pair{"v", v}})
        require_unit_stride(name, tensor, 3);
    require_output(out, v, first);
    const std::vector<std::int64_t> of_state{B, H, q.size(3), v.size(3)};
    la::decays decays;
    if (log_decay.has_value() && log_decay.value().ndim() == 1) {
        decays.from = la::decays::per_head;
        decays.rate = dense("log_decay", log_decay, {H}, "the heads of v", first);
    } else if (log_decay.has_value()) {
        decays.from = la::decays::per_step;
        decays.log_decay = dense("log_decay", log_decay, {B, H, N}, "batch, heads and rows of v", first);
    }
    const la::states states{
        dense("initial_state", initial_state, of_state, "(batch, heads, key dim, value dim)", first),
        dense("final_state", final_state, of_state, "(batch, heads, key dim, value dim)", first), false};
    const std::int64_t copies = (is_addressable(q) ? 0 : 1) | (is_addressable(k) ? 0 : 2) | (is_addressable(v) ? 0 : 4);
    if (copies != 0) return copies;
    start({B, H, G, N, static_cast<int>(q.size(3)), static_cast<int>(v.size(3)), static_cast<float>(scale)}, q, k, v,
          out, heads_first, decays, states, {}, segments);
    return 0;
}

// x, out: (batch, rows, heads, 64), dt: (batch, rows, heads), A: (heads), B, C: (batch, rows, groups, states). Returns as
// linear_attention does: 1 for x, 2 for B, 4 for C.
std::int64_t mamba2(TensorView x, TensorView b, TensorView c, TensorView dt, TensorView a, TensorView out,
                    Optional<TensorView> skip, Optional<TensorView> dt_bias, bool dt_softplus,
                    Optional<TensorView> initial_state, Optional<TensorView> final_state, std::int64_t segments) {
    require_tensor("x", x, 4, bfloat16);
    require_tensor("B", b, 4, bfloat16);
    require_tensor("C", c, 4, bfloat16);
    const reference first{"x", x};
    first.require_device("B", b);
    first.require_device("C", c);
    const std::int64_t B = x.size(0), N = x.size(1), H = x.size(2), P = x.size(3), G = b.size(2), S = b.size(3);
    if (P != 64) TVM_FFI_THROW(ValueError) << "x: got head dim " << P << ", supported is 64";
    require_dim("B", "state dim", S);
    require_shape("B", b, {B, N, G, S}, "batch and rows of x");
    require_shape("C", c, shape_of(b), "that of B");
    if (H % G != 0)
        TVM_FFI_THROW(ValueError) << "B: got " << G << " groups, needs a divisor of the " << H << " heads of x";
    for (const auto& [name, tensor] : {std::pair{"x", x}, std::pair{"B", b}, std::pair{"C", c}})
        require_unit_stride(name, tensor, 3);
    require_output(out, x, first);

    la::decays decays;
    decays.from = la::decays::from_dt;
    decays.dt_is_bf16 = is_type(dt, bfloat16);
    require_tensor("dt", dt, 3, decays.dt_is_bf16 ? bfloat16 : float32);
    first.require_device("dt", dt);
    require_shape("dt", dt, {B, N, H}, "batch, rows and heads of x");
    require_unit_stride("dt", dt, 2);
    decays.dt = dt.data_ptr();
    decays.dt_batch_stride = dt.stride(0);
    decays.dt_row_stride = dt.stride(1);
    decays.rate = dense("A", a, {H}, "the heads of x", first);
    decays.dt_bias = dense("dt_bias", dt_bias, {H}, "the heads of x", first);
    decays.softplus = dt_softplus;
    la::skip extra;
    if (skip.has_value()) {
        extra.per_column = skip.value().ndim() == 2;
        extra.weight = extra.per_column ? dense("D", skip, {H, P}, "the heads and head dim of x", first)
                                        : dense("D", skip, {H}, "the heads of x", first);
    }
    const std::vector<std::int64_t> of_state{B, H, P, S};
    const la::states states{dense("initial_state", initial_state, of_state, "(batch, heads, head dim, states)", first),
                            dense("final_state", final_state, of_state, "(batch, heads, head dim, states)", first),
                            true};
    const std::int64_t copies = (is_addressable(x) ? 0 : 1) | (is_addressable(b) ? 0 : 2) | (is_addressable(c) ? 0 : 4);
    if (copies != 0) return copies;
    start({B, H, G, N, static_cast<int>(S), static_cast<int>(P), 1.f}, c, b, x, out, rows_first, decays, states, extra,
          segments);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_attention, linear_attention);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mamba2, mamba2);
