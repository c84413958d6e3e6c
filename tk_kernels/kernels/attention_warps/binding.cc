// Exports attention's forward pass by warps to Python: checks every argument, then launches on the caller's stream.
#include <utility>

#include "../attention/arguments.h"
#include "attention_warps.h"

namespace {

using namespace tk::attention;

// As attention_forward of the kernel attention, which has options besides.
std::int64_t attention_warps(TensorView q, TensorView k, TensorView v, TensorView out, TensorView lse, bool causal,
                             double scale) {
    const problem p = as_problem(q, k, v, causal, scale);
    for (const auto& [name, tensor] : {std::pair{"q", q}, std::pair{"k", k}, std::pair{"v", v}})
        require_unit_stride(name, tensor);
    require_like("out", out, q, "that of q", q);
    require_output("out", out);
    float* const lse_to = lse_of(lse, q);
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    launching(
        [&] { forward_by_warps(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), lse_to, stream_of(q)); });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_warps, attention_warps);
