// Exports linear attention and Mamba-2's scan to Python: launches on the caller's stream.
#include <cstdint>

#include "arguments.h"

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
    const la::states states{numbers(initial_state), numbers(final_state), false};
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    start(la::problem_of(q, v, scale), q, k, v, out, heads_first, la::decays_of(log_decay), states, {}, segments);
    return 0;
}

// x, out: (batch, rows, heads, 64), dt: (batch, rows, heads), A: (heads), B, C: (batch, rows, groups, states). Returns
// as linear_attention does: 1 for x, 2 for B, 4 for C.
std::int64_t mamba2(TensorView x, TensorView b, TensorView c, TensorView dt, TensorView a, TensorView out,
                    Optional<TensorView> skip, Optional<TensorView> dt_bias, bool dt_softplus,
                    Optional<TensorView> initial_state, Optional<TensorView> final_state, std::int64_t segments) {
    const la::states states{numbers(initial_state), numbers(final_state), true};
    const std::int64_t copies = copies_of({x, b, c});
    if (copies != 0) return copies;
    start(la::problem_of_scan(x, b), c, b, x, out, rows_first, la::decays_of_dt(dt, a, dt_bias, dt_softplus), states,
          la::skip_of(skip), segments);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_attention, linear_attention);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mamba2, mamba2);
