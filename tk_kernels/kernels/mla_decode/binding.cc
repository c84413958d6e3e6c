// Exports MLA decode to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>
#include <utility>

#include "mla_decode.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

int* integers(const char* name, const TensorView& tensor, std::int64_t least, const named& first) {
    require_tensor(name, tensor, 1, {int32});
    require_device(name, tensor, first);
    if (!tensor.IsContiguous() || tensor.size(0) < least)
        TVM_FFI_THROW(ValueError) << name << ": got shape " << text_of(tensor.shape()) << ", needs " << least
                                  << " contiguous numbers at least";
    return static_cast<int*>(tensor.data_ptr());
}

// Returns 0 when it is launched, else launches nothing and returns 1: q needs a dense copy.
std::int64_t mla_decode(TensorView q, TensorView cache, TensorView table, TensorView plan, TensorView words,
                        TensorView partial, TensorView partial_lse, TensorView out, Optional<TensorView> lse,
                        std::int64_t blocks, std::int64_t capacity, std::int64_t counters, double scale) {
    const named first{"q", q};
    require_tensor("q", q, 4, {bfloat16});
    const std::int64_t batch = q.size(0), new_tokens = q.size(1), heads = q.size(2), dim = q.size(3);
    if (dim != tk::mla::width)
        TVM_FFI_THROW(ValueError) << "q: got rows of " << dim << " numbers, needs " << tk::mla::width;
    // The cache is not copied where it lies otherwise: it is as large as a GPU.
    require_tensor("kv_cache", cache, 3, {bfloat16});
    require_device("kv_cache", cache, first);
    require_shape("kv_cache", cache, {cache.size(0), cache.size(1), dim}, "rows as q has");
    if (!is_addressable(cache))
        TVM_FFI_THROW(ValueError) << "kv_cache: needs a 16-byte aligned base, unit stride along the last dimension and "
                                  << "other strides that are multiples of 16 bytes";
    require_tensor("block_table", table, 2, {int32});
    require_device("block_table", table, first);
    require_unit_stride("block_table", table);
    if (table.size(0) != batch)
        TVM_FFI_THROW(ValueError) << "block_table: got " << table.size(0) << " rows, needs one for each of " << batch
                                  << " sequences";
    if (blocks < 1 || capacity < 1 || counters < 1)
        TVM_FFI_THROW(ValueError) << "plan: got " << blocks << " blocks, " << capacity << " instructions and "
                                  << counters << " counters, needs at least one of each";
    const int* const instructions = integers("plan", plan, 16 + 16 * blocks * capacity, first);
    int* const ready = integers("words", words, tk::mla::words_for(narrow(counters)), first);
    require_tensor("partial", partial, 3, {float32});
    const std::int64_t slots = partial.size(0), rows = partial.size(1);
    float* const results =
        numbers("partial", partial, {slots, rows, tk::mla::latent}, "slots, rows of a tile, latent width", first);
    float* const logs = numbers("partial_lse", partial_lse, {slots, rows}, "slots, rows of a tile", first);
    require_tensor("out", out, 4, {bfloat16});
    require_device("out", out, first);
    require_shape("out", out, {batch, new_tokens, heads, tk::mla::latent}, "the latent part of q's");
    if (!is_dense(out)) TVM_FFI_THROW(ValueError) << "out: needs to be contiguous, at a multiple of 16 bytes";
    float* const lse_to = numbers("lse", lse, {batch, heads, new_tokens}, "a number for each row of q", first);
    if (!is_dense(q)) return 1;
    const std::int64_t page_stride = stride_of(cache, 0);
    const tk::mla::problem p{q.data_ptr(),
                             {cache.data_ptr(), page_stride, page_stride, stride_of(cache, 1)},
                             out.data_ptr(),
                             lse_to,
                             static_cast<const int*>(table.data_ptr()),
                             table.size(0) == 1 ? table.size(1) : table.stride(0),
                             batch,
                             new_tokens,
                             heads,
                             cache.size(0),
                             cache.size(1),
                             table.size(1),
                             scale};
    const tk::mla::planned s{
        instructions, narrow(blocks), narrow(capacity), narrow(counters), narrow(slots), narrow(rows), ready, results,
        logs};
    launching([&] { tk::mla::launch(p, s, stream_of(q)); });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mla_decode, mla_decode);
