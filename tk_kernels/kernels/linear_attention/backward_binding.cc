// Exports the backward passes of linear attention and of Mamba-2's scan to Python: launches on the caller's stream.
#include <cstdint>

#include "arguments.h"
#include "backward.h"

namespace {

namespace la = tk::linear_attention;
using namespace tk::binding;

std::int64_t start(const la::problem& p, const la::gradients& x, const la::decays& decays, const la::states& states,
                   const la::skip& skip, bool deterministic, const TensorView& v) {
    launching([&] {
        const Tensor memory = scratch(la::backward_scratch_elements(p, x.of_steps != nullptr, deterministic), v);
        la::backward(p, x, decays, states, skip, data_of(memory), deterministic, stream_of(v));
    });
    return 0;
}

// As the forward pass, with the gradients (backward.h). Returns 0 when it is launched, else launches nothing and
// returns which operands need a copy: 1 for q, 2 for k, 4 for v, 8 for dout.
std::int64_t linear_attention_backward(TensorView q, TensorView k, TensorView v, TensorView dout,
                                       Optional<TensorView> log_decay, double scale, Optional<TensorView> initial_state,
                                       Optional<TensorView> final_state, Optional<TensorView> dfinal,
                                       bool deterministic, TensorView dq, TensorView dk, TensorView dv,
                                       Optional<TensorView> dinitial, Optional<TensorView> of_steps,
                                       Optional<TensorView> totals) {
    const std::int64_t copies = copies_of({q, k, v, dout});
    if (copies != 0) return copies;
    return start(la::problem_of(q, v, scale),
                 {as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(dout), as_tensor(dq), as_tensor(dk),
                  as_tensor(dv), numbers(dfinal), numbers(dinitial), numbers(of_steps), numbers(totals)},
                 la::decays_of(log_decay), {numbers(initial_state), numbers(final_state), false}, {}, deterministic, v);
}

// The same: 1 for x, 2 for B, 4 for C, 8 for dout.
std::int64_t mamba2_backward(TensorView x, TensorView b, TensorView c, TensorView dout, TensorView dt, TensorView a,
                             Optional<TensorView> skip, Optional<TensorView> dt_bias, bool dt_softplus,
                             Optional<TensorView> initial_state, Optional<TensorView> final_state,
                             Optional<TensorView> dfinal, bool deterministic, TensorView dx, TensorView db,
                             TensorView dc, Optional<TensorView> dinitial, TensorView of_steps, TensorView totals) {
    const std::int64_t copies = copies_of({x, b, c, dout});
    if (copies != 0) return copies;
    const auto at = [](const TensorView& t) { return as_tensor(t, rows_first); };
    return start(la::problem_of_scan(x, b),
                 {at(c), at(b), at(x), at(dout), at(dc), at(db), at(dx), numbers(dfinal), numbers(dinitial),
                  numbers(of_steps), numbers(totals)},
                 la::decays_of_dt(dt, a, dt_bias, dt_softplus), {numbers(initial_state), numbers(final_state), true},
                 la::skip_of(skip), deterministic, x);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_attention_backward, linear_attention_backward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mamba2_backward, mamba2_backward);
