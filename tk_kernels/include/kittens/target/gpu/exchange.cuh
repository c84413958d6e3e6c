// GPU targets: counters that blocks of one launch hand data over by.
//
// The sequence, by the PTX ISA (9.0), chapter "Memory Consistency Model":
//   the block's stores       a barrier orders them before the warp that signals ("Synchronizes-with": barriers)
//   cp.async.bulk.wait_group what TMA stored is complete; completion is followed by an implicit proxy fence, so that it
//                            is seen as if stored by the thread itself ("Async proxy")
//   fence.proxy.async        between the generic and the async proxy, in both directions ("Proxies", "membar / fence")
//   red.release.gpu          a release pattern; signals of other blocks in between keep it alive, because each is a
//                            read-modify-write ("Release and Acquire Patterns", "Observation order")
//   ld.acquire.gpu           an acquire pattern that observes it: synchronizes ("Release and Acquire Patterns")
//   atom.acq_rel.gpu         both patterns in one: it releases, and observes the signals before it, which are
//                            read-modify-writes as it is
//   fence.proxy.async        a proxy fence along the path, so that order holds for loads by TMA too ("Causality order")
//   the block's loads        a barrier orders other warps of the block behind the one that waited
// Order is transitive over the barriers at either end ("Causality order"): one lane signals and one waits.
#pragma once

#include <cstring>
#include <string>

#include "kittens/target/gpu/registers.cuh"

namespace kittens {

// What a wait that never ends leaves in memory of the host, where it can be read although the launch has failed.
struct stall {
    int happened, index, value, at_least, block;
};
inline int* stall_report() {
    static int* const report = [] {
        void* memory = nullptr;
        // A process's first launch may be one that a CUDA graph captures, where allocating is refused unless asked for.
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        check_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "the capture mode of this thread");
        const cudaError_t done = cudaHostAlloc(&memory, sizeof(stall), cudaHostAllocMapped | cudaHostAllocPortable);
        check_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "the capture mode of this thread");
        check_cuda(done, "allocating the report of counters");
        return static_cast<int*>(std::memset(memory, 0, sizeof(stall)));
    }();
    return report;
}
// What it says; empty where every wait ended.
inline std::string stalled_counter() {
    const volatile auto& found = *reinterpret_cast<volatile stall*>(stall_report());
    if (found.happened == 0) return "";
    return "await: counter " + std::to_string(found.index) + " holds " + std::to_string(found.value) + " and not the " +
           std::to_string(found.at_least) + " that block " + std::to_string(found.block) +
           " waits for, after two seconds";
}

}  // namespace kittens

#include "kittens/target/exchange.cuh"

namespace kittens {

// Raises a counter. Whoever waits for it sees what this warp has stored and waited for, and what barriers have put
// before that: `store_wait` for what the copy engine stores, a barrier for other warps' stores.
kittens_device void signal(const counter& c, int amount = 1, site = kittens_here) {
    __syncwarp();
    if (elect()) {
        fence_proxies();
        asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(c.at()), "r"(amount) : "memory");
    }
    __syncwarp();
}

// Raises a number in global memory by 1, a release and an acquire: what it holds then. By one lane.
kittens_device int add_one(int* number) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(number) : "memory");
    return before + 1;
}
// A signal that tells how many have come, this one among them. Its warp, and those that a barrier or a semaphore puts
// behind it, see what all of these hand over.
kittens_device int signal_and_count(const counter& c, site = kittens_here) {
    __syncwarp();
    int count = 0;
    if (elect()) {
        fence_proxies();
        count = add_one(c.at());
        fence_proxies();
    }
    __syncwarp();  // memory in order for all lanes, of which the reduction says nothing
    return __reduce_max_sync(0xffffffffu, count);
}

kittens_device int acquire(const int* from) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
kittens_device uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
// The multiprocessor's own clock.
kittens_device uint64_t ticks() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
    return now;
}

// A wait of two seconds counts as one that never ends: says what is missing, and ends the launch with an error.
__device__ __noinline__ inline void stalled(int* memory, int index, int value, int at_least) {
    auto& report = *reinterpret_cast<volatile stall*>(memory);
    report.index = index;
    report.value = value;
    report.at_least = at_least;
    report.block = block_index();
    __threadfence_system();
    report.happened = 1;
    __threadfence_system();
    __trap();
}

// Waits until a counter has come so far: by this warp, and by those that a barrier or a semaphore puts behind it.
kittens_device void await(const counter& c, int at_least, site = kittens_here) {
    constexpr uint64_t longest = 2'000'000'000;
    if (elect()) {
        int value = acquire(c.at());
        if (value < at_least) {
            const uint64_t began = nanoseconds();
            do {
                __nanosleep(20);
                // The clock first: who was held up behind it may find that the signal has come.
                const bool over = nanoseconds() - began > longest;
                value = acquire(c.at());
                if (over && value < at_least) stalled(c.report, c.index, value, at_least);
            } while (value < at_least);
        }
        fence_proxies();
    }
    __syncwarp();
}

// By one warp of each block, behind the block's last signal and await: the last block clears the set.
kittens_device void retire(const counters& set, site = kittens_here) {
    __syncwarp();
    int retired = 0;
    if (elect()) retired = add_one(set.words);
    if (__reduce_max_sync(0xffffffffu, retired) != block_count()) return;
#pragma unroll 1
    for (int i = lane(); i <= set.count; i += warp_threads) set.words[i] = 0;
}

}  // namespace kittens
