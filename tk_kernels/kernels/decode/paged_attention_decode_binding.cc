// Exports paged decode with grouped heads to Python, and the same for operands that lie as attention's do.
#include "planned_binding.h"

namespace {

using namespace tk::binding;

// Whether the rows of (batch, heads, rows, dim) lie one after another by (batch, rows, heads).
bool is_dense_by_row(const TensorView& tensor) {
    const std::int64_t heads = tensor.size(1), rows = tensor.size(2), dim = tensor.size(3);
    const std::int64_t dense[] = {rows * heads * dim, dim, heads * dim, 1};
    bool is = is_aligned(tensor);
    for (int i = 0; i < 4; ++i) is = is && (tensor.size(i) == 1 || tensor.stride(i) == dense[i]);
    return is;
}

// q and out (batch, heads, rows, dim), k and v (batch, key heads, keys, dim), which are a page a sequence. `table`
// names these in order. out is dense, or with `causal` by row. Without `causal` the plan takes the rows of a head for
// heads, so that each sees every key. Returns 0 when it is launched, else bits 1, 2, 4 where q, k, v need a dense copy.
std::int64_t attention_decode(TensorView q, TensorView k, TensorView v, TensorView table, TensorView plan,
                              TensorView words, TensorView out, TensorView lse, std::int64_t blocks,
                              std::int64_t capacity, std::int64_t counters, std::int64_t slots,
                              std::int64_t rows_per_tile, bool causal, double scale) {
    const bool q_by_head = is_dense(q);
    const std::int64_t copies = (q_by_head || (causal && is_dense_by_row(q)) ? 0 : 1) | copies_of({k, v}) << 1;
    if (copies != 0) return copies;
    const std::int64_t heads = q.size(1), rows = q.size(2), tokens = causal ? rows : 1;
    tk::decode_plan::follow({.q = q.data_ptr(),
                             .k = as_tensor(k),
                             .v = as_tensor(v),
                             .out = out.data_ptr(),
                             .lse = numbers(lse),
                             .batch = q.size(0),
                             .new_tokens = tokens,
                             .heads = heads * rows / tokens,
                             .kv_heads = k.size(1),
                             .pages = k.size(0),
                             .page = k.size(2),
                             .dim = narrow(q.size(3)),
                             .scale = scale,
                             .q_by_head = q_by_head,
                             .out_by_head = is_dense(out)},
                            q.size(3), q, table, plan, words, {blocks, capacity, counters, slots, rows_per_tile},
                            tk::paged_attention_decode::launch);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_decode, attention_decode);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_attention_decode, tk::decode_plan::paged<tk::paged_attention_decode::launch>);
