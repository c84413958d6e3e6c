// Fibers: a stack of its own for every warp, and a switch between stacks in a dozen instructions.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace kittens::cpu {

// Saves the registers a call must preserve on the running stack, leaves its top in *from, and goes on with `to`.
// noipa: a compiler that reads the body sees no register change, and would keep values in all others across the call.
__attribute__((naked, noipa)) inline void switch_stack(void** /*from*/, void* /*to*/) {
    asm volatile(
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "subq $8, %rsp\n stmxcsr (%rsp)\n fnstcw 4(%rsp)\n"
        "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
        "ldmxcsr (%rsp)\n fldcw 4(%rsp)\n addq $8, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}

// First instructions of a fiber: entry (r13) called with its argument (r12). The entry never returns.
__attribute__((naked, noinline)) inline void start_fiber() { asm volatile("movq %r12, %rdi\n callq *%r13\n ud2\n"); }

// A stack with an inaccessible page below it; memory is committed as it is touched.
class fiber {
  public:
    static constexpr size_t stack_bytes = size_t(1) << 20;

    fiber() {
        void* memory = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        mprotect(memory, guard_bytes, PROT_NONE);
        base_ = static_cast<unsigned char*>(memory);
    }
    ~fiber() {
        if (base_ != nullptr) munmap(base_, stack_bytes + guard_bytes);
    }
    fiber(fiber&& other) noexcept : base_(other.base_), top_(other.top_) { other.base_ = nullptr; }
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;
    fiber& operator=(fiber&&) = delete;

    // Makes the next enter() call entry(argument) on an empty stack.
    void reset(void (*entry)(void*), void* argument) {
        auto* slot = reinterpret_cast<uintptr_t*>(base_ + guard_bytes + stack_bytes);
        slot -= 2;                                            // the entry is called with an aligned stack
        *--slot = reinterpret_cast<uintptr_t>(&start_fiber);  // popped by ret
        *--slot = 0;                                          // rbp: ends a debugger's walk
        *--slot = 0;                                          // rbx
        *--slot = reinterpret_cast<uintptr_t>(argument);      // r12
        *--slot = reinterpret_cast<uintptr_t>(entry);         // r13
        *--slot = 0;                                          // r14
        *--slot = 0;                                          // r15
        *--slot = uintptr_t(0x037f) << 32 | 0x1f80;           // x87 and SSE control words as a thread starts
        top_ = slot;
    }
    void enter(void** scheduler) { switch_stack(scheduler, top_); }
    void leave(void* scheduler) { switch_stack(&top_, scheduler); }

  private:
    static constexpr size_t guard_bytes = 4096;
    unsigned char* base_ = nullptr;
    void* top_ = nullptr;
};

}  // namespace kittens::cpu
