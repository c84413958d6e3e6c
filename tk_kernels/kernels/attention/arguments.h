// What the bindings of all attention kernels check.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "attention.h"
#include "tk/binding.h"

namespace tk::attention {

using namespace tk::binding;

// A tensor of the shape of q, k or v.
inline void require_like(const char* name, const TensorView& tensor, const TensorView& like, const char* why,
                         const TensorView& q) {
    require_tensor(name, tensor, 4, {bfloat16});
    require_device(name, tensor, {"q", q});
    require_shape(name, tensor, like.shape(), why);
}

// The problem that q, k and v pose together.
inline problem as_problem(const TensorView& q, const TensorView& k, const TensorView& v, bool causal, double scale) {
    require_tensor("q", q, 4, {bfloat16});
    require_tensor("k", k, 4, {bfloat16});
    require_tensor("v", v, 4, {bfloat16});
    require_device("k", k, {"q", q});
    require_device("v", v, {"q", q});
    const std::int64_t dim = q.size(3);
    if (dim != 64 && dim != 128) TVM_FFI_THROW(ValueError) << "q: got head dim " << dim << ", supported are 64 and 128";
    if (k.size(3) != dim) {
        TVM_FFI_THROW(ValueError) << "k: got head dim " << k.size(3) << ", needs " << dim << " as q has";
    }
    if (k.size(0) != q.size(0)) {
        TVM_FFI_THROW(ValueError) << "k: got batch " << k.size(0) << ", needs " << q.size(0) << " as q has";
    }
    if (q.size(1) % k.size(1) != 0) {
        TVM_FFI_THROW(ValueError) << "k: got " << k.size(1) << " heads, needs a divisor of the " << q.size(1)
                                  << " heads of q";
    }
    require_shape("v", v, k.shape(), "that of k");
    if (!(scale >= 0 && scale <= std::numeric_limits<float>::max())) {
        TVM_FFI_THROW(ValueError) << "scale: got " << scale
                                  << ", needs a finite number in float32, not below 0 for the operator itself";
    }
    return {q.size(0), q.size(1),
            k.size(1), q.size(2),
            k.size(2), static_cast<int>(dim),
            causal,    static_cast<float>(scale)};
}

inline float* lse_of(const TensorView& lse, const TensorView& q) {
    return numbers("lse", lse, {q.size(0), q.size(1), q.size(2)}, "that of q without its last dimension", {"q", q});
}

// Checks the arguments of a forward pass and launches it, by run(problem, lse). Returns 0, or which operands need a
// copy that the TMA can address, having launched nothing: 1 for q, 2 for k, 4 for v.
template <typename Run>
std::int64_t launch_forward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                            const TensorView& lse, bool causal, double scale, const Run& run) {
    const problem p = as_problem(q, k, v, causal, scale);
    for (const auto& [name, tensor] : {std::pair{"q", q}, std::pair{"k", k}, std::pair{"v", v}})
        require_unit_stride(name, tensor);
    require_like("out", out, q, "that of q", q);
    require_output("out", out);
    float* const lse_to = lse_of(lse, q);
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    launching([&] { run(p, lse_to); });
    return 0;
}

// What a backward pass reads, and where it writes.
struct backward_tensors {
    TensorView q, k, v, out, dout, lse, dq, dk, dv;
};

// Checks the arguments of a backward pass and launches it. Returns 0, or which operands need a copy, having launched
// nothing: 1 for q, 2 for k, 4 for v, 8 for out, 16 for dout.
inline std::int64_t launch_backward(std::int64_t (&scratch_of)(const problem&, bool),
                                    void (&run)(const problem&, const gradients&, void*), const backward_tensors& t,
                                    bool causal, double scale, bool deterministic) {
    const problem p = as_problem(t.q, t.k, t.v, causal, scale);
    require_like("out", t.out, t.q, "that of q", t.q);
    const float* const lse = lse_of(t.lse, t.q);
    require_like("dout", t.dout, t.q, "that of q", t.q);
    require_like("dq", t.dq, t.q, "that of q", t.q);
    require_like("dk", t.dk, t.k, "that of k", t.q);
    require_like("dv", t.dv, t.v, "that of v", t.q);
    require_output("dq", t.dq);
    require_output("dk", t.dk);
    require_output("dv", t.dv);
    const std::int64_t copies = copies_of({t.q, t.k, t.v, t.out, t.dout});
    if (copies != 0) return copies;
    launching([&] {
        const Tensor memory = scratch(scratch_of(p, deterministic), t.q);
        run(p,
            {as_tensor(t.q), as_tensor(t.k), as_tensor(t.v), as_tensor(t.out), lse, as_tensor(t.dout), as_tensor(t.dq),
             as_tensor(t.dk), as_tensor(t.dv), data_of(memory), deterministic},
            stream_of(t.q));
    });
    return 0;
}

}  // namespace tk::attention
