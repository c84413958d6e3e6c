// What the bindings of all attention kernels share. Operands' dtypes, shapes and devices are checked by the operator.
#pragma once

#include <cstdint>

#include "attention.h"
#include "tk/binding.h"

namespace tk::attention {

using namespace tk::binding;

// The problem that q, k and v pose together.
inline problem as_problem(const TensorView& q, const TensorView& k, const TensorView& v, bool causal, double scale) {
    return {q.size(0), q.size(1),
            k.size(1), q.size(2),
            k.size(2), static_cast<int>(q.size(3)),
            causal,    static_cast<float>(scale)};
}

// Launches a forward pass, by run(problem, lse). Returns 0, or which operands need a
// copy that the TMA can address, having launched nothing: 1 for q, 2 for k, 4 for v.
template <typename Run>
std::int64_t launch_forward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& lse,
                            bool causal, double scale, const Run& run) {
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    launching([&] { run(as_problem(q, k, v, causal, scale), numbers(lse)); });
    return 0;
}

// What a backward pass reads, and where it writes.
struct backward_tensors {
    TensorView q, k, v, out, dout, lse, dq, dk, dv;
};

// Launches a backward pass. Returns 0, or which operands need a copy, having launched
// nothing: 1 for q, 2 for k, 4 for v, 8 for out, 16 for dout.
inline std::int64_t launch_backward(std::int64_t (&scratch_of)(const problem&, bool),
                                    void (&run)(const problem&, const gradients&, void*), const backward_tensors& t,
                                    bool causal, double scale, bool deterministic) {
    const std::int64_t copies = copies_of({t.q, t.k, t.v, t.out, t.dout});
    if (copies != 0) return copies;
    launching([&] {
        const problem p = as_problem(t.q, t.k, t.v, causal, scale);
        const Tensor memory = scratch(scratch_of(p, deterministic), t.q);
        run(p,
            {as_tensor(t.q), as_tensor(t.k), as_tensor(t.v), as_tensor(t.out), numbers(t.lse), as_tensor(t.dout),
             as_tensor(t.dq), as_tensor(t.dk), as_tensor(t.dv), data_of(memory), deterministic},
            stream_of(t.q));
    });
    return 0;
}

}  // namespace tk::attention
