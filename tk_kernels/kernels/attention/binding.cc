// Exports attention, forward and backward, to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>
#include <utility>

#include "arguments.h"
#include "tk/binding.h"

namespace {

using namespace tk::attention;
using namespace tk::binding;

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
        const Tensor counter = scratch(1, q);
        tk::attention::forward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), lse_to,
                               {narrow(order), narrow(synchronous), narrow(blocks_per_sm)},
                               static_cast<int*>(counter.data_ptr()), stream_of(q));
    });
    return 0;
}

// Writes dq, dk and dv. Returns as attention_forward does; 8 stands for out, 16 for dout.
std::int64_t attention_backward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView dout,
                                TensorView lse, TensorView dq, TensorView dk, TensorView dv, bool causal, double scale,
                                bool deterministic) {
    return launch_backward(backward_scratch, backward, {q, k, v, out, dout, lse, dq, dk, dv}, causal, scale,
                           deterministic);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_forward, attention_forward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_backward, attention_backward);
