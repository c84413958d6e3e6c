// Exports attention, forward and backward, to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>

#include "arguments.h"
#include "tk/binding.h"

namespace {

using namespace tk::attention;
using namespace tk::binding;

// Writes out and lse. Returns as launch_forward does.
std::int64_t attention_forward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView lse, bool causal,
                               double scale, std::int64_t order, std::int64_t synchronous, std::int64_t blocks_per_sm) {
    return launch_forward(q, k, v, out, lse, causal, scale, [&](const problem& p, float* lse_to) {
        const Tensor counter = scratch(1, q);
        tk::attention::forward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), lse_to,
                               {narrow(order), narrow(synchronous), narrow(blocks_per_sm)},
                               static_cast<int*>(counter.data_ptr()), stream_of(q));
    });
}

// Writes dq, dk and dv. Returns as launch_backward does.
std::int64_t attention_backward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView dout,
                                TensorView lse, TensorView dq, TensorView dk, TensorView dv, bool causal, double scale,
                                bool deterministic) {
    return launch_backward(backward_scratch, backward, {q, k, v, out, dout, lse, dq, dk, dv}, causal, scale,
                           deterministic);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_forward, attention_forward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_backward, attention_backward);
