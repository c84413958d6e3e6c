// What the bindings of the kernels that follow a plan share: checks of the table, the plan, its scratch, the results.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "layout.h"
#include "planned.h"
#include "tk/binding.h"

namespace tk::decode_plan {

// The arguments of both operators behind q and its caches.
struct planned_arguments {
    const binding::TensorView &table, &plan, &words, &partial, &partial_lse, &out;
    const binding::Optional<binding::TensorView>& lse;
    std::int64_t blocks, capacity, counters;
};

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
inline void require_table(const binding::TensorView& table, const binding::named& q) {
    using namespace binding;
    require_tensor("block_table", table, 2, {int32});
    require_device("block_table", table, q);
    require_unit_stride("block_table", table);
    const std::int64_t batch = q.tensor.size(0);
    if (table.size(0) != batch)
        TVM_FFI_THROW(ValueError) << "block_table: got " << table.size(0) << " rows, needs one for each of " << batch
                                  << " sequences";
}
inline std::int64_t stride_of_table(const binding::TensorView& table) {
    return table.size(0) == 1 ? table.size(1) : table.stride(0);
}

// The plan with its scratch, and `out` of rows of `dim`; q is (batch, new tokens, heads, ...). `words_for` says how
// many ints so many counters are.
template <typename WordsFor>
planned require_planned(const planned_arguments& a, std::int64_t dim, const binding::named& q,
                        const WordsFor& words_for) {
    using namespace binding;
    if (a.blocks < 1 || a.capacity < 1 || a.counters < 1)
        TVM_FFI_THROW(ValueError) << "plan: got " << a.blocks << " blocks, " << a.capacity << " instructions and "
                                  << a.counters << " counters, needs at least one of each";
    const int* const instructions = integers("plan", a.plan, header_ints + instruction_ints * a.blocks * a.capacity, q);
    int* const words = integers("words", a.words, words_for(narrow(a.counters)), q);
    require_tensor("partial", a.partial, 3, {float32});
    const std::int64_t slots = a.partial.size(0), rows = a.partial.size(1);
    float* const partial = numbers("partial", a.partial, {slots, rows, dim}, "slots, rows of a tile, row of out", q);
    float* const logs = numbers("partial_lse", a.partial_lse, {slots, rows}, "slots, rows of a tile", q);
    require_tensor("out", a.out, 4, {bfloat16});
    require_device("out", a.out, q);
    require_shape("out", a.out, {q.tensor.size(0), q.tensor.size(1), q.tensor.size(2), dim}, "a row for each of q's");
    if (!is_dense(a.out)) TVM_FFI_THROW(ValueError) << "out: needs to be contiguous, at a multiple of 16 bytes";
    return {instructions,
            narrow(a.blocks),
            narrow(a.capacity),
            narrow(a.counters),
            narrow(slots),
            narrow(rows),
            words,
            partial,
            logs};
}
inline float* require_lse(const planned_arguments& a, const binding::named& q) {
    return binding::numbers("lse", a.lse, {q.tensor.size(0), q.tensor.size(2), q.tensor.size(1)},
                            "a number for each row of q", q);
}

}  // namespace tk::decode_plan
