// Exports linear attention and Mamba-2's scan to Python: checks every argument, then launches on the caller's stream.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "linear_attention.h"
#include "tk/binding.h"

namespace {

namespace la = tk::linear_attention;
using namespace tk::binding;

void require_dim(const char* name, const char* what, std::int64_t dim) {
    if (dim != 64 && dim != 128) {
        TVM_FFI_THROW(ValueError) << name << ": got " << what << " " << dim << ", supported are 64 and 128";
    }
}

void require_written(const TensorView& out, const TensorView& values, const char* why, const named& first) {
    require_tensor("out", out, 4, {bfloat16});
    require_device("out", out, first);
    require_shape("out", out, values.shape(), why);
    require_output("out", out);
}

void start(const la::problem& p, const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const dimensions& where, const la::decays& decays, const la::states& states, const la::skip& skip,
           std::int64_t segments) {
    launching([&] {
        const la::options options{narrow(segments)};
        const std::int64_t elements = la::scratch_elements(p, options);
        Tensor memory;
        if (elements > 0) memory = scratch(elements, v);
        la::forward(p, as_tensor(q, where), as_tensor(k, where), as_tensor(v, where), as_tensor(out, where), decays,
                    states, skip, elements > 0 ? data_of(memory) : nullptr, options, stream_of(v));
    });
}

// q, k: (batch, groups, rows, key_dim), v, out: (batch, heads, rows, value_dim), log_decay: (heads) or (batch, heads,
// rows). Returns 0 when it is launched, else launches nothing and returns which operands need a copy that the TMA can
// address: 1 for q, 2 for k, 4 for v.
std::int64_t linear_attention(TensorView q, TensorView k, TensorView v, TensorView out, Optional<TensorView> log_decay,
                              double scale, Optional<TensorView> initial_state, Optional<TensorView> final_state,
                              std::int64_t segments) {
    require_tensor("q", q, 4, {bfloat16});
    require_tensor("k", k, 4, {bfloat16});
    require_tensor("v", v, 4, {bfloat16});
    require_device("k", k, {"q", q});
    require_device("v", v, {"q", q});
    require_shape("k", k, q.shape(), "that of q");
    const std::int64_t B = q.size(0), G = q.size(1), N = q.size(2), H = v.size(1);
    require_dim("q", "head dim", q.size(3));
    require_dim("v", "head dim", v.size(3));
    require_shape("v", v, {B, H, N, v.size(3)}, "batch and rows of q");
    if (H % G != 0) TVM_FFI_THROW(ValueError) << "q: got " << G << " heads, needs a divisor of the " << H << " of v";
    if (!(std::fabs(scale) <= std::numeric_limits<float>::max())) {
        TVM_FFI_THROW(ValueError) << "scale: got " << scale << ", needs a finite number in float32";
    }
    for (const auto& [name, tensor] : {std::pair{"q", q}, std::pair{"k", k}, std::pair{"v", v}})
        require_unit_stride(name, tensor);
    require_written(out, v, "that of v", {"q", q});
    const std::int64_t of_state[] = {B, H, q.size(3), v.size(3)};
    la::decays decays;
    if (log_decay.has_value() && log_decay.value().ndim() == 1) {
        decays.from = la::decays::per_head;
        decays.rate = numbers("log_decay", log_decay, {H}, "the heads of v", {"q", q});
    } else if (log_decay.has_value()) {
        decays.from = la::decays::per_step;
        decays.log_decay = numbers("log_decay", log_decay, {B, H, N}, "batch, heads and rows of v", {"q", q});
    }
    const la::states states{
        numbers("initial_state", initial_state, {of_state, 4}, "(batch, heads, key dim, value dim)", {"q", q}),
        numbers("final_state", final_state, {of_state, 4}, "(batch, heads, key dim, value dim)", {"q", q}), false};
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    start({B, H, G, N, static_cast<int>(q.size(3)), static_cast<int>(v.size(3)), static_cast<float>(scale)}, q, k, v,
          out, heads_first, decays, states, {}, segments);
    return 0;
}

// x, out: (batch, rows, heads, 64), dt: (batch, rows, heads), A: (heads), B, C: (batch, rows, groups, states). Returns
// as linear_attention does: 1 for x, 2 for B, 4 for C.
std::int64_t mamba2(TensorView x, TensorView b, TensorView c, TensorView dt, TensorView a, TensorView out,
                    Optional<TensorView> skip, Optional<TensorView> dt_bias, bool dt_softplus,
                    Optional<TensorView> initial_state, Optional<TensorView> final_state, std::int64_t segments) {
    require_tensor("x", x, 4, {bfloat16});
    require_tensor("B", b, 4, {bfloat16});
    require_tensor("C", c, 4, {bfloat16});
    require_device("B", b, {"x", x});
    require_device("C", c, {"x", x});
    const std::int64_t B = x.size(0), N = x.size(1), H = x.size(2), P = x.size(3), G = b.size(2), S = b.size(3);
    if (P != 64) TVM_FFI_THROW(ValueError) << "x: got head dim " << P << ", supported is 64";
    require_dim("B", "state dim", S);
    require_shape("B", b, {B, N, G, S}, "batch and rows of x");
    require_shape("C", c, b.shape(), "that of B");
    if (H % G != 0)
        TVM_FFI_THROW(ValueError) << "B: got " << G << " groups, needs a divisor of the " << H << " heads of x";
    for (const auto& [name, tensor] : {std::pair{"x", x}, std::pair{"B", b}, std::pair{"C", c}})
        require_unit_stride(name, tensor);
    require_written(out, x, "that of x", {"x", x});

    la::decays decays;
    decays.from = la::decays::from_dt;
    decays.dt_is_bf16 = is_type(dt, bfloat16);
    require_tensor("dt", dt, 3, {float32, bfloat16});
    require_device("dt", dt, {"x", x});
    require_shape("dt", dt, {B, N, H}, "batch, rows and heads of x");
    require_unit_stride("dt", dt);
    decays.dt = dt.data_ptr();
    decays.dt_batch_stride = dt.stride(0);
    decays.dt_row_stride = dt.stride(1);
    decays.rate = numbers("A", a, {H}, "the heads of x", {"x", x});
    decays.dt_bias = numbers("dt_bias", dt_bias, {H}, "the heads of x", {"x", x});
    decays.softplus = dt_softplus;
    la::skip extra;
    if (skip.has_value()) {
        extra.per_column = skip.value().ndim() == 2;
        extra.weight = extra.per_column ? numbers("D", skip, {H, P}, "the heads and head dim of x", {"x", x})
                                        : numbers("D", skip, {H}, "the heads of x", {"x", x});
    }
    const std::int64_t of_state[] = {B, H, P, S};
    const la::states states{
        numbers("initial_state", initial_state, {of_state, 4}, "(batch, heads, head dim, states)", {"x", x}),
        numbers("final_state", final_state, {of_state, 4}, "(batch, heads, head dim, states)", {"x", x}), true};
    const std::int64_t copies = copies_of({x, b, c});
    if (copies != 0) return copies;
    start({B, H, G, N, static_cast<int>(S), static_cast<int>(P), 1.f}, c, b, x, out, rows_first, decays, states, extra,
          segments);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_attention, linear_attention);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mamba2, mamba2);
