// What the bindings of the kernels that follow a plan share: the table, checks of the plan and the caches, the launch.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "decode.h"
#include "tk/binding.h"

namespace tk::decode_plan {

// Of a plan: so many numbers where q is, or a kernel would follow what is no plan.
inline int* integers(const char* name, const binding::TensorView& tensor, std::int64_t least,
                     const binding::TensorView& q) {
    using namespace binding;
    if (!is_type(tensor, int32) || !is_beside(tensor, q) || !tensor.IsContiguous() || tensor.numel() < least)
        TVM_FFI_THROW(ValueError) << name << ": needs at least " << least << " contiguous int32 numbers where q is";
    return static_cast<int*>(tensor.data_ptr());
}

// A cache is not copied: it is as large as a GPU.
inline void require_cache(const char* name, const binding::TensorView& tensor) {
    if (!binding::is_addressable(tensor))
        TVM_FFI_THROW(ValueError) << name << ": needs a 16-byte aligned base, unit stride along the last dimension and "
                                  << "other strides that are multiples of 16 bytes";
}

// A row of the table for each sequence of q.
inline void set_table(problem& p, const binding::TensorView& table) {
    p.table = static_cast<const int*>(table.data_ptr());
    p.table_stride = table.size(0) == 1 ? table.size(1) : table.stride(0);
    p.table_width = table.size(1);
}

struct plan_sizes {
    std::int64_t blocks, capacity, counters, slots, rows_per_tile;
};
inline planned planned_of(const plan_sizes& s, const binding::TensorView& plan, const binding::TensorView& words,
                          float* partial, float* partial_weights, const binding::TensorView& q) {
    using binding::narrow;
    if (s.blocks < 1 || s.capacity < 1 || s.counters < 1)
        TVM_FFI_THROW(ValueError) << "plan: got " << s.blocks << " blocks, " << s.capacity << " instructions and "
                                  << s.counters << " counters, needs at least one of each";
    return {integers("plan", plan, header_ints + instruction_ints * s.blocks * s.capacity, q),
            narrow(s.blocks),
            narrow(s.capacity),
            narrow(s.counters),
            narrow(s.slots),
            narrow(s.rows_per_tile),
            integers("words", words, kittens::program::words_for(s.counters), q),
            partial,
            partial_weights};
}

// A call of either operator: checks the plan and where q lies, and launches on the caller's stream. `p` has the caches
// and what is read of them. Returns 0 when it is launched, else launches nothing and returns 1: q needs a dense copy.
template <typename Launch>
std::int64_t launch_planned(problem p, const binding::TensorView& q, const binding::TensorView& table,
                            const binding::TensorView& plan, const binding::TensorView& words,
                            const binding::TensorView& partial, const binding::TensorView& partial_weights,
                            const binding::TensorView& out, const binding::Optional<binding::TensorView>& lse,
                            std::int64_t blocks, std::int64_t capacity, std::int64_t counters, const Launch& launch,
                            std::string (*stalled)()) {
    using namespace binding;
    if (!is_dense(q)) return 1;
    const planned s = planned_of({blocks, capacity, counters, partial.size(0), partial.size(1)}, plan, words,
                                 numbers(partial), numbers(partial_weights), q);
    set_table(p, table);
    p.batch = q.size(0), p.new_tokens = q.size(1), p.heads = q.size(2);
    p.q = q.data_ptr(), p.out = out.data_ptr(), p.lse = numbers(lse);
    launching_blocks([&] { launch(p, s, stream_of(q)); }, stalled);
    return 0;
}

}  // namespace tk::decode_plan
