// What the bindings of the kernels that follow a plan share: the plan's numbers, its scratch, and the launch.
#pragma once

#include <cstdint>
#include <string>

#include "decode.h"
#include "tk/binding.h"

namespace tk::decode_plan {

// Checks the plan's int32 tensors: a direct call of the registered operator may pass any.
inline int* integers(const char* name, const binding::TensorView& tensor, std::int64_t least,
                     const binding::TensorView& q) {
    using namespace binding;
    if (!is_type(tensor, int32) || !is_beside(tensor, q) || !tensor.IsContiguous() || tensor.numel() < least)
        TVM_FFI_THROW(ValueError) << name << ": needs at least " << least << " contiguous int32 numbers where q is";
    return static_cast<int*>(tensor.data_ptr());
}

struct plan_sizes {
    std::int64_t blocks, capacity, counters, slots, rows_per_tile;
};

// Launches a call whose operands are right on the caller's stream. `p` has q, the caches and what is read of them; out
// has rows of `dim`.
template <typename Launch>
void follow(problem p, std::int64_t dim, const binding::TensorView& q, const binding::TensorView& table,
            const binding::TensorView& plan, const binding::TensorView& words, const plan_sizes& s,
            const Launch& launch) {
    using namespace binding;
    if (s.blocks < 1 || s.capacity < 1 || s.counters < 1 || s.slots < 1 || s.rows_per_tile < 1)
        TVM_FFI_THROW(ValueError) << "plan: needs blocks, instructions, counters, slots and rows, at least one of each";
    const Tensor partial = scratch(s.slots * s.rows_per_tile * dim, q),
                 weights = scratch(2 * s.slots * s.rows_per_tile, q);
    p.table = static_cast<const int*>(table.data_ptr());
    p.table_stride = table.size(0) == 1 ? table.size(1) : table.stride(0);
    p.table_width = table.size(1);
    const planned to{integers("plan", plan, header_ints + instruction_ints * s.blocks * s.capacity, q),
                     narrow(s.blocks),
                     narrow(s.capacity),
                     narrow(s.counters),
                     narrow(s.slots),
                     narrow(s.rows_per_tile),
                     integers("words", words, kittens::program::words_for(s.counters), q),
                     data_of(partial),
                     data_of(weights)};
    launching_blocks([&] { launch(p, to, stream_of(q)); }, stalled);
}

// Either operator: v is k where it has one cache. A cache is not copied: it is as large as a GPU. seqlens: where the
// kernel is to compare the plan's with them. Returns 0 when it is launched, else launches nothing and returns 1: q
// needs a dense copy.
template <auto Launch>
std::int64_t paged(binding::TensorView q, binding::TensorView k, binding::TensorView v, binding::TensorView table,
                   binding::Optional<binding::TensorView> seqlens, binding::TensorView plan, binding::TensorView words,
                   binding::TensorView out, binding::Optional<binding::TensorView> lse, std::int64_t blocks,
                   std::int64_t capacity, std::int64_t counters, std::int64_t slots, std::int64_t rows_per_tile,
                   double scale) {
    using namespace binding;
    const bool latent = k.ndim() == 3;
    if (!is_addressable(k) || !is_addressable(v))
        TVM_FFI_THROW(ValueError) << (latent              ? "kv_cache"
                                      : is_addressable(k) ? "v_cache"
                                                          : "k_cache")
                                  << ": needs a 16-byte aligned base, unit stride along the last dimension and other "
                                  << "strides that are multiples of 16 bytes";
    if (!is_dense(q)) return 1;
    const auto cache = [&](const TensorView& t) -> tensor {
        if (!latent) return as_tensor(t, rows_first);
        return {t.data_ptr(), stride_of(t, 0), stride_of(t, 0), stride_of(t, 1)};
    };
    follow({.q = q.data_ptr(),
            .k = cache(k),
            .v = cache(v),
            .out = out.data_ptr(),
            .lse = numbers(lse),
            .batch = q.size(0),
            .new_tokens = q.size(1),
            .heads = q.size(2),
            .kv_heads = latent ? 1 : k.size(2),
            .pages = k.size(0),
            .page = k.size(1),
            .dim = narrow(q.size(3)),
            .scale = scale,
            .lengths = seqlens.has_value() ? static_cast<const int*>(seqlens.value().data_ptr()) : nullptr,
            .lengths_stride = seqlens.has_value() ? seqlens.value().stride(0) : 1},
           out.size(3), q, table, plan, words, {blocks, capacity, counters, slots, rows_per_tile}, Launch);
    return 0;
}

}  // namespace tk::decode_plan

TVM_FFI_DLL_EXPORT_TYPED_FUNC(stalled, tk::decode_plan::stalled);
