// Exports MLA decode to Python: the operator has checked its operands; checks the plan, then launches on the caller's stream.
#include <cstdint>

#include "planned_binding.h"

namespace {

using namespace tk::binding;

std::int64_t mla_decode(TensorView q, TensorView cache, TensorView table, TensorView plan, TensorView words,
                        TensorView partial, TensorView partial_weights, TensorView out, Optional<TensorView> lse,
                        std::int64_t blocks, std::int64_t capacity, std::int64_t counters, double scale) {
    using namespace tk::mla_decode;
    tk::decode_plan::require_cache("kv_cache", cache);
    const std::int64_t page_stride = stride_of(cache, 0);
    return tk::decode_plan::launch_planned({.k = {cache.data_ptr(), page_stride, page_stride, stride_of(cache, 1)},
                                            .pages = cache.size(0),
                                            .page = cache.size(1),
                                            .scale = scale},
                                           q, table, plan, words, partial, partial_weights, out, lse, blocks, capacity,
                                           counters, launch, stalled);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mla_decode, mla_decode);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mla_decode_stalled, tk::mla_decode::stalled);
