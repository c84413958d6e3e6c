// Exports attention's backward pass by warps to Python.
#include "arguments.h"
#include "by_warps_backward.h"

namespace {

using namespace tk::attention;

// As attention_backward of the kernel attention.
std::int64_t attention_warps_backward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView dout,
                                      TensorView lse, TensorView dq, TensorView dk, TensorView dv, bool causal,
                                      double scale, bool deterministic) {
    return launch_backward(scratch_by_warps, backward_by_warps, {q, k, v, out, dout, lse, dq, dk, dv}, causal, scale,
                           deterministic);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_warps_backward, attention_warps_backward);
