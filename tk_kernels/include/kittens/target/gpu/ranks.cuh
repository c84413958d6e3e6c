// GPU targets: flags between ranks. As counters (exchange.cuh), at system scope: st.release.sys and ld.acquire.sys on
// memory of the other GPU that is mapped here. No multicast object is made or used.
#pragma once

#include "kittens/target/gpu/exchange.cuh"
#include "kittens/target/gpu/launch.cuh"
#include "kittens/target/ranks.cuh"

namespace kittens {

// The number of launches that have ended on this rank.
template <int Most> kittens_device int epoch(const flags<Most>& f, site = kittens_here) {
    int ended;
    asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(ended) : "l"(f.own()) : "memory");
    return ended;
}

// Raises a flag of rank `to` to a value; no other rank raises that one. Whoever waits for it sees what this warp has
// stored on any rank and waited for, and what barriers and counters have put before that.
template <int Most>
kittens_device void signal(const flags<Most>& f, int to, int index, int value, site = kittens_here) {
    __syncwarp();
    if (elect()) {
        fence_proxies();
        asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(f.at(to, index)), "r"(value) : "memory");
    }
    __syncwarp();
}

kittens_device int acquire_of_system(const int* from) {
    int value;
    asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

// Waits until a flag of this rank has come so far, as a number that wraps around: by this warp, and by those that a
// barrier or a semaphore puts behind it. As of a counter, a wait of two seconds is the last.
template <int Most> kittens_device void await(const flags<Most>& f, int index, int at_least, site = kittens_here) {
    constexpr uint64_t longest = 2'000'000'000;
    if (elect()) {
        const auto missing = [&](int value) { return int(unsigned(at_least) - unsigned(value)) > 0; };
        int value = acquire_of_system(f.at(f.rank, index));
        if (missing(value)) {
            const uint64_t began = nanoseconds();
            do {
                __nanosleep(20);
                const bool over = nanoseconds() - began > longest;
                value = acquire_of_system(f.at(f.rank, index));
                if (over && missing(value)) stalled(f.report, index, value, at_least);
            } while (missing(value));
        }
        fence_proxies();
    }
    __syncwarp();
}

// By one warp of each block, behind the block's last signal and await: the last block raises the epoch.
template <int Most> kittens_device void retire(const flags<Most>& f, site = kittens_here) {
    __syncwarp();
    if (elect() && add_one(f.own() + 1) == block_count()) {
        f.own()[1] = 0;
        f.own()[0]++;
    }
    __syncwarp();
}

// The cpu target runs ranks side by side in one process; here each launch runs at once.
inline void collect_launches(int /*ranks*/) {}
inline void run_collected() {}

// The launch of one rank: this process's.
template <typename Kernel>
void launch_of_rank(const launch_shape& shape, void* stream, const typename Kernel::globals& globals, int /*rank*/) {
    launch<Kernel>(shape, stream, globals);
}

}  // namespace kittens
