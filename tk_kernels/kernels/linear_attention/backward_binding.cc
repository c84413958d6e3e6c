// Exports the backward passes of linear attention and of Mamba-2's scan to Python: launches on the caller's stream.
#include <cstdint>

#include "arguments.h"
#include "backward.h"

namespace {

namespace la = tk::linear_attention;
using namespace tk::binding;

// The gradient of q or k: bf16 (batch, groups, rows, key_dim), in the operands' order of dimensions, or fp32 sums
// (batch, slots, rows, key_dim).
la::shared_gradient_of shared(const TensorView& t, const dimensions& where) {
    if (is_type(t, bfloat16)) return {as_tensor(t, where), nullptr, 0};
    return {{}, numbers(t), t.size(1)};
}

struct results {
    TensorView dq, dk, dv;
    Optional<TensorView> dfinal, dinitial, dots;
};
std::int64_t start(const la::problem& p, const TensorView& q, const TensorView& k, const TensorView& v,
                   const TensorView& dout, const results& to, const dimensions& where, const la::decays& decays,
                   const la::states& states, const la::skip& skip, std::int64_t copies) {
    if (copies != 0) return copies;
    launching([&] {
        la::backward(p,
                     {as_tensor(q, where), as_tensor(k, where), as_tensor(v, where), as_tensor(dout, where),
                      as_tensor(to.dv, where), shared(to.dq, where), shared(to.dk, where), numbers(to.dfinal),
                      numbers(to.dinitial), numbers(to.dots)},
                     decays, states, skip, stream_of(v));
    });
    return 0;
}

// Units of a block, in which q and k are shared: where all of a group are in one, dq and dk are written in bf16.
std::int64_t linear_attention_units(std::int64_t heads, std::int64_t groups, std::int64_t value_dim) {
    return la::units_of_block({1, heads, groups, 1, 64, static_cast<int>(value_dim), 1.f});
}

// As the forward pass, with the gradients (backward.h). Returns 0 when it is launched, else launches nothing and
// returns which operands need a copy: 1 for q, 2 for k, 4 for v, 8 for dout.
std::int64_t linear_attention_backward(TensorView q, TensorView k, TensorView v, TensorView dout,
                                       Optional<TensorView> log_decay, double scale, Optional<TensorView> initial_state,
                                       Optional<TensorView> dfinal, TensorView dq, TensorView dk, TensorView dv,
                                       Optional<TensorView> dinitial, Optional<TensorView> dots) {
    const la::states states{numbers(initial_state), nullptr, false};
    return start(la::problem_of(q, v, scale), q, k, v, dout, {dq, dk, dv, dfinal, dinitial, dots}, heads_first,
                 la::decays_of(log_decay), states, {}, copies_of({q, k, v, dout}));
}

// The same: 1 for x, 2 for B, 4 for C, 8 for dout.
std::int64_t mamba2_backward(TensorView x, TensorView b, TensorView c, TensorView dout, TensorView dt, TensorView a,
                             Optional<TensorView> skip, Optional<TensorView> dt_bias, bool dt_softplus,
                             Optional<TensorView> initial_state, Optional<TensorView> dfinal, TensorView dx,
                             TensorView db, TensorView dc, Optional<TensorView> dinitial, Optional<TensorView> dots) {
    const la::states states{numbers(initial_state), nullptr, true};
    return start(la::problem_of_scan(x, b), c, b, x, dout, {dc, db, dx, dfinal, dinitial, dots}, rows_first,
                 la::decays_of_dt(dt, a, dt_bias, dt_softplus), states, la::skip_of(skip), copies_of({x, b, c, dout}));
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_attention_units, linear_attention_units);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_attention_backward, linear_attention_backward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mamba2_backward, mamba2_backward);
