// Exports attention, forward and backward, to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>
#include <limits>
#include <utility>

#include "attention.h"
#include "tk/binding.h"

namespace {

using tk::attention::problem;
using namespace tk::binding;

// A tensor of the shape of q, k or v.
void require_like(const char* name, const TensorView& tensor, const TensorView& like, const char* why,
                  const TensorView& q) {
    require_tensor(name, tensor, 4, {bfloat16});
    require_device(name, tensor, {"q", q});
    require_shape(name, tensor, like.shape(), why);
}

// The problem that q, k and v pose together.
problem as_problem(const TensorView& q, const TensorView& k, const TensorView& v, bool causal, double scale) {
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

float* lse_of(const TensorView& lse, const TensorView& q) {
    return numbers("lse", lse, {q.size(0), q.size(1), q.size(2)}, "that of q without its last dimension", {"q", q});
}

// Writes out and lse. Returns 0 when it is launched, else launches nothing and returns which operands need a copy that
// the TMA can address: 1 for q, 2 for k, 4 for v.
std::int64_t attention_forward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView lse, bool causal,
                               double scale, std::int64_t order, std::int64_t synchronous, std::int64_t blocks_per_sm) {
    const problem p = as_problem(q, k, v, causal, scale);
    for (const auto& [name, tensor] : {std::pair{"q", q}, std::pair{"k", k}, std::pair{"v", v}})
        require_unit_stride(name, tensor);
    require_like("out", out, q, "that of q", q);
    require_output("out", out);
    float* const lse_to = lse_of(lse, q);
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    launching([&] {
        tk::attention::forward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), lse_to,
                               {narrow(order), narrow(synchronous), narrow(blocks_per_sm)}, stream_of(q));
    });
    return 0;
}

// Writes dq, dk and dv. Returns as attention_forward does; 8 stands for out, 16 for dout.
std::int64_t attention_backward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView dout,
                                TensorView lse, TensorView dq, TensorView dk, TensorView dv, bool causal, double scale,
                                bool deterministic) {
    const problem p = as_problem(q, k, v, causal, scale);
    require_like("out", out, q, "that of q", q);
    const float* const lse_from = lse_of(lse, q);
    require_like("dout", dout, q, "that of q", q);
    require_like("dq", dq, q, "that of q", q);
    require_like("dk", dk, k, "that of k", q);
    require_like("dv", dv, v, "that of v", q);
    require_output("dq", dq);
    require_output("dk", dk);
    require_output("dv", dv);
    const std::int64_t copies = copies_of({q, k, v, out, dout});
    if (copies != 0) return copies;
    launching([&] {
        const Tensor memory = scratch(tk::attention::backward_scratch(p, deterministic), q);
        tk::attention::backward(p,
                                {as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), lse_from, as_tensor(dout),
                                 as_tensor(dq), as_tensor(dk), as_tensor(dv), data_of(memory), deterministic},
                                stream_of(q));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_forward, attention_forward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_backward, attention_backward);
