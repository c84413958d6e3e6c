// Exports MLA decode to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>

#include "planned_binding.h"
#include "mla_decode.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// Returns 0 when it is launched, else launches nothing and returns 1: q needs a dense copy.
std::int64_t mla_decode(TensorView q, TensorView cache, TensorView table, TensorView plan, TensorView words,
                        TensorView partial, TensorView partial_lse, TensorView out, Optional<TensorView> lse,
                        std::int64_t blocks, std::int64_t capacity, std::int64_t counters, double scale) {
    using namespace tk::decode_plan;
    const named first{"q", q};
    const planned_arguments rest{table, plan, words, partial, partial_lse, out, lse, blocks, capacity, counters};
    require_tensor("q", q, 4, {bfloat16});
    const std::int64_t dim = q.size(3);
    if (dim != tk::mla_decode::width)
        TVM_FFI_THROW(ValueError) << "q: got rows of " << dim << " numbers, needs " << tk::mla_decode::width;
    require_cache("kv_cache", cache, 3, first);
    require_shape("kv_cache", cache, {cache.size(0), cache.size(1), dim}, "rows as q has");
    require_table(table, first);
    const planned s = require_planned(rest, tk::mla_decode::latent, first, tk::mla_decode::words_for);
    float* const lse_to = require_lse(rest, first);
    if (!is_dense(q)) return 1;
    const std::int64_t page_stride = stride_of(cache, 0);
    const tk::mla_decode::problem p{q.data_ptr(),
                                    {cache.data_ptr(), page_stride, page_stride, stride_of(cache, 1)},
                                    out.data_ptr(),
                                    lse_to,
                                    static_cast<const int*>(table.data_ptr()),
                                    stride_of_table(table),
                                    q.size(0),
                                    q.size(1),
                                    q.size(2),
                                    cache.size(0),
                                    cache.size(1),
                                    table.size(1),
                                    scale};
    launching_blocks([&] { tk::mla_decode::launch(p, s, stream_of(q)); }, tk::mla_decode::stalled);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mla_decode, mla_decode);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mla_decode_stalled, tk::mla_decode::stalled);
