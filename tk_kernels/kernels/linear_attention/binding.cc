// Exports linear attention and Mamba-2's scan to Python: launches on the caller's stream.
#include <cstdint>

#include "linear_attention.h"
#include "tk/binding.h"

namespace {

namespace la = tk::linear_attention;
using namespace tk::binding;

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
    la::decays decays;
    if (log_decay.has_value() && log_decay.value().ndim() == 1) {
        decays.from = la::decays::per_head;
        decays.rate = numbers(log_decay);
    } else if (log_decay.has_value()) {
        decays.from = la::decays::per_step;
        decays.log_decay = numbers(log_decay);
    }
    const la::states states{numbers(initial_state), numbers(final_state), false};
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    start({q.size(0), v.size(1), q.size(1), q.size(2), static_cast<int>(q.size(3)), static_cast<int>(v.size(3)),
           static_cast<float>(scale)},
          q, k, v, out, heads_first, decays, states, {}, segments);
    return 0;
}

// x, out: (batch, rows, heads, 64), dt: (batch, rows, heads), A: (heads), B, C: (batch, rows, groups, states). Returns
// as linear_attention does: 1 for x, 2 for B, 4 for C.
std::int64_t mamba2(TensorView x, TensorView b, TensorView c, TensorView dt, TensorView a, TensorView out,
                    Optional<TensorView> skip, Optional<TensorView> dt_bias, bool dt_softplus,
                    Optional<TensorView> initial_state, Optional<TensorView> final_state, std::int64_t segments) {
    const std::int64_t B = x.size(0), N = x.size(1), H = x.size(2), P = x.size(3), G = b.size(2), S = b.size(3);

    la::decays decays;
    decays.from = la::decays::from_dt;
    decays.dt_is_bf16 = is_type(dt, bfloat16);
    decays.dt = dt.data_ptr();
    decays.dt_batch_stride = dt.stride(0);
    decays.dt_row_stride = dt.stride(1);
    decays.rate = numbers(a);
    decays.dt_bias = numbers(dt_bias);
    decays.softplus = dt_softplus;
    la::skip extra;
    if (skip.has_value()) {
        extra.per_column = skip.value().ndim() == 2;
        extra.weight = numbers(skip);
    }
    const la::states states{numbers(initial_state), numbers(final_state), true};
    const std::int64_t copies = copies_of({x, b, c});
    if (copies != 0) return copies;
    start({B, H, G, N, static_cast<int>(S), static_cast<int>(P), 1.f}, c, b, x, out, rows_first, decays, states, extra,
          segments);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_attention, linear_attention);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mamba2, mamba2);
