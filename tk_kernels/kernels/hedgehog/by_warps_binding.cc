// Exports Hedgehog attention by warps to Python.
#include "arguments.h"
#include "by_warps.h"

namespace {

using tvm::ffi::TensorView;

std::int64_t hedgehog_warps(TensorView q, TensorView k, TensorView v, TensorView q_map, TensorView k_map,
                            TensorView alpha, TensorView beta, TensorView out, TensorView k_state, TensorView kv_state,
                            std::int64_t segments) {
    using namespace tk::hedgehog;
    return launch(tk::hedgehog::segments_by_warps, forward_by_warps, q, k, v, q_map, k_map, alpha, beta, out, k_state,
                  kv_state, segments);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(hedgehog_warps, hedgehog_warps);
