// Exports attention's forward pass by warps to Python: launches on the caller's stream.
#include "arguments.h"

namespace {

using namespace tk::attention;

// As attention_forward of the kernel attention, which has options besides.
std::int64_t attention_warps(TensorView q, TensorView k, TensorView v, TensorView out, TensorView lse, bool causal,
                             double scale) {
    return launch_forward(q, k, v, lse, causal, scale, [&](const problem& p, float* lse_to) {
        forward_by_warps(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), lse_to, stream_of(q));
    });
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_warps, attention_warps);
