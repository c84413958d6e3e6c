// When each instruction of a program was carried out: what a kernel's `Recorder` may be. Its globals begin with
// Recorder::where; each role makes one, `Recorder record(g, role, records)`, and says `waited()` behind its first wait.
#pragma once

namespace kittens {

// Of kernels that are timed: no code.
struct unrecorded {
    struct where {};
    template <typename Records> kittens_device unrecorded(const where&, int, const Records&) {}
    kittens_device void start() {}
    kittens_device void waited() {}
    kittens_device void end() {}
};

// One warp of a role, of so many: for each instruction the multiprocessor's clock at its start, behind its first wait
// and at its end, and the time that all multiprocessors share, at its end.
template <int Roles> struct recorded {
    static constexpr int numbers = 4;
    struct where {
        std::uint64_t* log;  // (block, role, instruction, number), of zeros
        int instructions;
    };
    std::uint64_t* at;
    std::uint64_t began = 0, over = 0;

    // `records()` says whether this warp is the one.
    template <typename Records>
    kittens_device recorded(const where& to, int role, const Records& records)
        : at(records() ? to.log + std::int64_t(block_index() * Roles + role) * to.instructions * numbers : nullptr) {}
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
        at += numbers;
    }
};

}  // namespace kittens
