// What the bindings of all attention kernels share. Operands' dtypes, shapes and devices are checked by the operator.
#pragma once

#include <cstdint>

#include "attention.h"
#include "tk/binding.h"

namespace tk::attention {

using namespace tk::binding;

// The problem that q, k and v pose together.
inline problem as_problem(const TensorView& q, const TensorView& k, const TensorView& v, bool causal, double scale,
                          std::int64_t window = 0) {
    return {q.size(0), q.size(1),
            k.size(1), q.size(2),
            k.size(2), static_cast<int>(q.size(3)),
            causal,    static_cast<float>(scale),
            window};
}

// Launches a forward pass, by run(problem, lse). Returns 0, or which operands need a
// copy that the TMA can address, having launched nothing: 1 for q, 2 for k, 4 for v.
template <typename Run>
std::int64_t launch_forward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& lse,
                            bool causal, double scale, const Run& run, std::int64_t window = 0) {
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    launching([&] { run(as_problem(q, k, v, causal, scale, window), numbers(lse)); });
    return 0;
}

// Writes dq, dk and dv, by the unit's backward pass. Returns 0, or which operands need a copy, having launched
// nothing: 1 for q, 2 for k, 4 for v, 8 for out, 16 for dout.
inline std::int64_t launch_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                    const TensorView& out, const TensorView& dout, const TensorView& lse,
                                    const TensorView& dq, const TensorView& dk, const TensorView& dv, bool causal,
                                    double scale, bool deterministic, std::int64_t window = 0) {
    const std::int64_t copies = copies_of({q, k, v, out, dout});
    if (copies != 0) return copies;
    launching([&] {
        const problem p = as_problem(q, k, v, causal, scale, window);
        const Tensor memory = scratch(backward_scratch(p, deterministic), q);
        backward(p,
                 {as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), numbers(lse), as_tensor(dout),
                  as_tensor(dq), as_tensor(dk), as_tensor(dv), data_of(memory), deterministic},
                 stream_of(q));
    });
    return 0;
}
inline std::int64_t attention_backward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView dout,
                                       TensorView lse, TensorView dq, TensorView dk, TensorView dv, bool causal,
                                       double scale, bool deterministic) {
    return launch_backward(q, k, v, out, dout, lse, dq, dk, dv, causal, scale, deterministic);
}

}  // namespace tk::attention
