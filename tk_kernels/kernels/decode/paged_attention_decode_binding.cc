// Exports paged decode with grouped heads to Python: the operator has checked its operands; checks the plan, then
// launches on the caller's stream.
#include <cstdint>

#include "planned_binding.h"

namespace {

using namespace tk::binding;

std::int64_t paged_attention_decode(TensorView q, TensorView k, TensorView v, TensorView table, TensorView plan,
                                    TensorView words, TensorView partial, TensorView partial_weights, TensorView out,
                                    Optional<TensorView> lse, std::int64_t blocks, std::int64_t capacity,
                                    std::int64_t counters, double scale) {
    using namespace tk::paged_attention_decode;
    tk::decode_plan::require_cache("k_cache", k);
    tk::decode_plan::require_cache("v_cache", v);
    const std::int64_t dim = q.size(3);
    return tk::decode_plan::launch_planned({.k = as_tensor(k, rows_first),
                                            .v = as_tensor(v, rows_first),
                                            .kv_heads = k.size(2),
                                            .pages = k.size(0),
                                            .page = k.size(1),
                                            .dim = static_cast<int>(dim),
                                            .scale = scale},
                                           q, table, plan, words, partial, partial_weights, out, lse, blocks, capacity,
                                           counters, launch, stalled);
}

// Whether the rows of (batch, heads, rows, dim) lie one after another by (batch, rows, heads).
bool is_dense_by_row(const TensorView& tensor) {
    const std::int64_t heads = tensor.size(1), rows = tensor.size(2), dim = tensor.size(3);
    const std::int64_t dense[] = {rows * heads * dim, dim, heads * dim, 1};
    bool is = is_aligned(tensor);
    for (int i = 0; i < 4; ++i) is = is && (tensor.size(i) == 1 || tensor.stride(i) == dense[i]);
    return is;
}

// The same for operands that lie as attention's do: q and out (batch, heads, rows, dim), k and v (batch, key heads,
// keys, dim), which are a page a sequence. `table` names these in order. Without `causal` the plan takes the rows of a
// head for heads, so that each sees every key. Returns 0 when it is launched, else bits 1, 2, 4 where q, k, v need a
// dense copy.
std::int64_t attention_decode(TensorView q, TensorView k, TensorView v, TensorView table, TensorView plan,
                              TensorView words, TensorView out, TensorView lse, std::int64_t blocks,
                              std::int64_t capacity, std::int64_t counters, std::int64_t slots,
                              std::int64_t rows_per_tile, bool causal, double scale) {
    using namespace tk::decode_plan;
    const std::int64_t batch = q.size(0), heads = q.size(1), rows = q.size(2), dim = q.size(3);
    const std::int64_t tokens = causal ? rows : 1;
    tk::paged_attention_decode::problem p{.k = as_tensor(k),
                                          .v = as_tensor(v),
                                          .batch = batch,
                                          .new_tokens = tokens,
                                          .heads = heads * rows / tokens,
                                          .kv_heads = k.size(1),
                                          .pages = batch,
                                          .page = k.size(2),
                                          .dim = static_cast<int>(dim),
                                          .scale = scale};
    set_table(p, table);
    const bool q_by_head = is_dense(q), out_by_head = is_dense(out);
    const std::int64_t copies = (q_by_head || (causal && is_dense_by_row(q)) ? 0 : 1) | (is_addressable(k) ? 0 : 2) |
                                (is_addressable(v) ? 0 : 4);
    if (copies != 0) return copies;
    const Tensor partial = scratch(slots * rows_per_tile * dim, q),
                 partial_weights = scratch(2 * slots * rows_per_tile, q);
    const planned s = planned_of({blocks, capacity, counters, slots, rows_per_tile}, plan, words, data_of(partial),
                                 data_of(partial_weights), q);
    p.q = q.data_ptr(), p.q_by_head = q_by_head;
    p.out = out.data_ptr(), p.out_by_head = out_by_head;
    p.lse = numbers(lse);
    launching_blocks([&] { tk::paged_attention_decode::launch(p, s, stream_of(q)); },
                     tk::paged_attention_decode::stalled);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_decode, attention_decode);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_attention_decode, paged_attention_decode);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_attention_decode_stalled, tk::paged_attention_decode::stalled);
