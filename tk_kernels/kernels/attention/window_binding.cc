// Exports causal attention with a window, forward and backward, to Python: launches on the caller's stream.
#include "arguments.h"

namespace {

using namespace tk::attention;

// As those of attention, whose options are chosen by shape; a query sees the last `window` of its causal keys.
std::int64_t window_forward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView lse, double scale,
                            std::int64_t window) {
    const auto run = [&](const problem& p, float* lse_to) {
        const Tensor counter = scratch(1, q);
        forward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), lse_to, {},
                static_cast<int*>(counter.data_ptr()), stream_of(q));
    };
    return launch_forward(q, k, v, lse, true, scale, run, window);
}
std::int64_t window_backward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView dout, TensorView lse,
                             TensorView dq, TensorView dk, TensorView dv, double scale, std::int64_t window,
                             bool deterministic) {
    return launch_backward(q, k, v, out, dout, lse, dq, dk, dv, true, scale, deterministic, window);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(window_forward, window_forward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(window_backward, window_backward);
