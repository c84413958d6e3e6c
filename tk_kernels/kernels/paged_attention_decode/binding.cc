// Exports paged decode with grouped heads to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>

#include "../decode_plan/planned_binding.h"
#include "decode.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// Returns 0 when it is launched, else launches nothing and returns 1: q needs a dense copy.
std::int64_t paged_attention_decode(TensorView q, TensorView k, TensorView v, TensorView table, TensorView plan,
                                    TensorView words, TensorView partial, TensorView partial_lse, TensorView out,
                                    Optional<TensorView> lse, std::int64_t blocks, std::int64_t capacity,
                                    std::int64_t counters, double scale) {
    using namespace tk::decode_plan;
    const named first{"q", q};
    const planned_arguments rest{table, plan, words, partial, partial_lse, out, lse, blocks, capacity, counters};
    require_tensor("q", q, 4, {bfloat16});
    const std::int64_t heads = q.size(2), dim = q.size(3);
    if (dim != 64 && dim != 128) TVM_FFI_THROW(ValueError) << "q: got head dim " << dim << ", supported are 64 and 128";
    require_cache("k_cache", k, 4, first);
    require_cache("v_cache", v, 4, first);
    require_shape("v_cache", v, k.shape(), "that of k_cache");
    require_shape("k_cache", k, {k.size(0), k.size(1), k.size(2), dim}, "the head dim of q");
    if (heads % k.size(2) != 0)
        TVM_FFI_THROW(ValueError) << "q: got " << heads << " heads, needs a multiple of the cache's " << k.size(2);
    require_table(table, first);
    const planned s = require_planned(rest, dim, first, tk::paged_attention_decode::words_for);
    float* const lse_to = require_lse(rest, first);
    if (!is_dense(q)) return 1;
    const tk::paged_attention_decode::problem p{q.data_ptr(),
                                                as_tensor(k, rows_first),
                                                as_tensor(v, rows_first),
                                                out.data_ptr(),
                                                lse_to,
                                                static_cast<const int*>(table.data_ptr()),
                                                stride_of_table(table),
                                                q.size(0),
                                                q.size(1),
                                                heads,
                                                k.size(2),
                                                k.size(0),
                                                k.size(1),
                                                table.size(1),
                                                static_cast<int>(dim),
                                                scale};
    launching([&] { tk::paged_attention_decode::launch(p, s, stream_of(q)); });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_attention_decode, paged_attention_decode);
