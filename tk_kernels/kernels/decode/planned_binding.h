// What the bindings of the kernels that follow a plan share: checks of the table, the plan, its scratch, the results.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "decode.h"
#include "tk/binding.h"

namespace tk::decode_plan {

inline int* integers(const char* name, const binding::TensorView& tensor, std::int64_t least,
                     const binding::named& first) {
    using namespace binding;
    require_tensor(name, tensor, 1, {int32});
    require_device(name, tensor, first);
    if (!tensor.IsContiguous() || tensor.size(0) < least)
        TVM_FFI_THROW(ValueError) << name << ": got shape " << text_of(tensor.shape()) << ", needs " << least
                                  << " contiguous numbers at least";
    return static_cast<int*>(tensor.data_ptr());
}

// Of a cache, which is not copied: it is as large as a GPU.
inline void require_cache(const char* name, const binding::TensorView& tensor, int rank, const binding::named& first) {
    using namespace binding;
    require_tensor(name, tensor, rank, {bfloat16});
    require_device(name, tensor, first);
    if (!is_addressable(tensor))
        TVM_FFI_THROW(ValueError) << name << ": needs a 16-byte aligned base, unit stride along the last dimension and "
                                  << "other strides that are multiples of 16 bytes";
}

// A row of the table for each sequence of q.
inline void set_table(problem& p, const binding::TensorView& table, const binding::named& q) {
    using namespace binding;
    require_tensor("block_table", table, 2, {int32});
    require_device("block_table", table, q);
    require_unit_stride("block_table", table);
    const std::int64_t batch = q.tensor.size(0);
    if (table.size(0) != batch)
        TVM_FFI_THROW(ValueError) << "block_table: got " << table.size(0) << " rows, needs one for each of " << batch
                                  << " sequences";
    p.table = static_cast<const int*>(table.data_ptr());
    p.table_stride = batch == 1 ? table.size(1) : table.stride(0);
    p.table_width = table.size(1);
}

struct plan_sizes {
    std::int64_t blocks, capacity, counters, slots, rows_per_tile;
};
inline planned planned_of(const plan_sizes& s, const binding::TensorView& plan, const binding::TensorView& words,
                          float* partial, float* partial_weights, const binding::named& first) {
    using binding::narrow;
    if (s.blocks < 1 || s.capacity < 1 || s.counters < 1)
        TVM_FFI_THROW(ValueError) << "plan: got " << s.blocks << " blocks, " << s.capacity << " instructions and "
                                  << s.counters << " counters, needs at least one of each";
    return {integers("plan", plan, header_ints + instruction_ints * s.blocks * s.capacity, first),
            narrow(s.blocks),
            narrow(s.capacity),
            narrow(s.counters),
            narrow(s.slots),
            narrow(s.rows_per_tile),
            integers("words", words, kittens::program::words_for(s.counters), first),
            partial,
            partial_weights};
}

// A call of either operator, whose q is right but for where it lies, and whose caches are: checks the rest, and
// launches on the caller's stream. `p` has the caches and what is read of them; out has rows of `dim`. Returns 0 when
// it is launched, else launches nothing and returns 1: q needs a dense copy.
template <typename Launch>
std::int64_t launch_planned(problem p, std::int64_t dim, const binding::TensorView& q, const binding::TensorView& table,
                            const binding::TensorView& plan, const binding::TensorView& words,
                            const binding::TensorView& partial, const binding::TensorView& partial_weights,
                            const binding::TensorView& out, const binding::Optional<binding::TensorView>& lse,
                            std::int64_t blocks, std::int64_t capacity, std::int64_t counters, const Launch& launch,
                            std::string (*stalled)()) {
    using namespace binding;
    const named first{"q", q};
    set_table(p, table, first);
    require_tensor("partial", partial, 3, {float32});
    const std::int64_t slots = partial.size(0), rows = partial.size(1);
    const planned s = planned_of(
        {blocks, capacity, counters, slots, rows}, plan, words,
        numbers("partial", partial, {slots, rows, dim}, "slots, rows of a tile, row of out", first),
        numbers("partial_weights", partial_weights, {2, slots, rows}, "two, slots, rows of a tile", first), first);
    p.batch = q.size(0), p.new_tokens = q.size(1), p.heads = q.size(2);
    require_tensor("out", out, 4, {bfloat16});
    require_device("out", out, first);
    require_shape("out", out, {p.batch, p.new_tokens, p.heads, dim}, "a row for each of q's");
    if (!is_dense(out)) TVM_FFI_THROW(ValueError) << "out: needs to be contiguous, at a multiple of 16 bytes";
    p.lse = numbers("lse", lse, {p.batch, p.heads, p.new_tokens}, "a number for each row of q", first);
    if (!is_dense(q)) return 1;
    p.q = q.data_ptr(), p.out = out.data_ptr();
    launching_blocks([&] { launch(p, s, stream_of(q)); }, stalled);
    return 0;
}

}  // namespace tk::decode_plan
