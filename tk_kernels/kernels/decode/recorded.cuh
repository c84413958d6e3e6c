// What the recording kernels leave: when each instruction did what.
#pragma once

#include "kittens.cuh"

namespace tk::decode_plan {

using namespace kittens;

constexpr int recorded_roles = 2, recorded_numbers = 4;  // who loads, who multiplies; of an instruction

// One warp of a role: for each instruction the multiprocessor's clock at its start, behind its first wait and at its
// end, and the time that all multiprocessors share, at its end.
struct recorded {
    struct where {
        std::uint64_t* log;  // (block, role, instruction, number), of zeros
        int instructions;
    };
    std::uint64_t* at;
    std::uint64_t began = 0, over = 0;

    // `records()` says whether this warp is the one; unrecorded kernels do not ask.
    template <typename Records>
    kittens_device recorded(const where& to, int role, const Records& records)
        : at(records()
                 ? to.log + std::int64_t(block_index() * recorded_roles + role) * to.instructions * recorded_numbers
                 : nullptr) {}
    kittens_device void start() {
        began = ticks();
        over = 0;
    }
    kittens_device void waited() {
        if (over == 0) over = ticks();
    }
    kittens_device void end() {
        if (at == nullptr) return;
        at[0] = began, at[1] = over == 0 ? began : over, at[2] = ticks(), at[3] = nanoseconds();
        at += recorded_numbers;
    }
};

}  // namespace tk::decode_plan
