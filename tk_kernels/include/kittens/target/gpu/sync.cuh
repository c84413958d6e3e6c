// GPU targets: semaphores (mbarriers) and barriers, as far as all GPUs have them.
#pragma once

#include "kittens/target/gpu/registers.cuh"

namespace kittens {

// Counts arrivals and bytes. A phase completes when its arrivals are in and every expected byte has landed; wait(s, p)
// returns once the phase of parity p has completed. A fresh semaphore is in phase 0, so that waiting for parity 1
// passes at once.
struct semaphore {
    uint64_t value;
};

// Sets up `count` semaphores in a row, each for `arrivals` a phase. By one warp, which then calls fence_init(); a
// barrier makes them known to the others.
kittens_device void init(semaphore* s, int count, int arrivals, site = kittens_here) {
    if (elect())
#pragma unroll
        for (int i = 0; i < count; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(s + i)), "r"(arrivals)
                         : "memory");
    __syncwarp();
}
kittens_device void init(semaphore& s, int arrivals, site where = kittens_here) { init(&s, 1, arrivals, where); }

// One arrival by the calling warp (after all of its lanes got here).
kittens_device void arrive(semaphore& s, site = kittens_here) {
    __syncwarp();
    if (elect()) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&s)) : "memory");
}

kittens_device bool test(semaphore& s, int parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_address(&s)), "r"(parity)
                 : "memory");
    return done != 0;
}

// --- barriers -------------------------------------------------------------------------------------------------
kittens_device void sync_warp() { __syncwarp(); }
kittens_device void sync_block(site = kittens_here) { __syncthreads(); }
// Barrier number id (1 .. 15) among `warps` warps.
kittens_device void sync_named(int id, int warps, site = kittens_here) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(warps * warp_threads) : "memory");
}
kittens_device void arrive_named(int id, int warps, site = kittens_here) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(warps * warp_threads) : "memory");
}

namespace warpgroup {
// Barrier of this warpgroup's four warps; ids 1 .. 15 are the block's.
kittens_device void sync(int id, site = kittens_here) { sync_named(id, warpgroup_warps); }
}  // namespace warpgroup

}  // namespace kittens
