// sm_90a: semaphores (mbarriers), barriers, fences, register re-allocation.
#pragma once

#include "kittens/target/sm_90a/memory.cuh"

namespace kittens {

// Counts arrivals and bytes. A phase completes when its arrivals are in and every expected byte has landed; wait(s, p)
// returns once the phase of parity p has completed. A fresh semaphore is in phase 0, so that waiting for parity 1
// passes at once.
struct semaphore {
    uint64_t value;
};

// Sets up `count` semaphores in a row, each for `arrivals` a phase. By one warp, which then calls fence_init(); a barrier
// makes them known to the others.
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

// One arrival at the same semaphore of block `rank` of the cluster.
kittens_device void arrive_at(semaphore& s, int rank, site = kittens_here) {
    __syncwarp();
    if (elect())
        asm volatile(
            "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
            "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(shared_address(&s)),
            "r"(rank)
            : "memory");
}

// One arrival that also announces bytes to come in this phase.
kittens_device void expect_bytes(semaphore& s, int bytes, site = kittens_here) {
    if (elect())
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&s)), "r"(bytes)
                     : "memory");
}

kittens_device bool test(semaphore& s, int parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_address(&s)), "r"(parity)
                 : "memory");
    return done != 0;
}

kittens_device void wait(semaphore& s, int parity, site = kittens_here) {
    asm volatile(
        "{ .reg .pred p;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@!p bra again; }" ::"r"(shared_address(&s)),
        "r"(parity)
        : "memory");
}

// --- barriers -------------------------------------------------------------------------------------------------
kittens_device void sync_warp() { __syncwarp(); }
kittens_device void sync_block(site = kittens_here) { __syncthreads(); }
kittens_device void sync_cluster(site = kittens_here) {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Makes the semaphores that this warp has set up visible to asynchronous loads and to the cluster.
kittens_device void fence_init(site = kittens_here) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// fence_init() and a barrier, for every warp of the block or cluster.
template <int ClusterBlocks = 1> kittens_device void sync_start(site = kittens_here) {
    fence_init();
    if constexpr (ClusterBlocks > 1) sync_cluster();
    else sync_block();
}
// Barrier number id (1 .. 15) among `warps` warps.
kittens_device void sync_named(int id, int warps, site = kittens_here) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(warps * warp_threads) : "memory");
}
kittens_device void arrive_named(int id, int warps, site = kittens_here) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(warps * warp_threads) : "memory");
}

// Makes this warp's ordinary stores to shared memory visible to TMA and wgmma; a barrier follows where other warps issue.
kittens_device void fence_async(site = kittens_here) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- register re-allocation: by whole warpgroups, a multiple of 8 between 24 and 256 ---------------------------
template <int Registers> kittens_device void increase_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers> kittens_device void decrease_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

namespace warpgroup {
// Barrier of this warpgroup's four warps; ids 1 .. 15 are the block's.
kittens_device void sync(int id, site = kittens_here) { sync_named(id, warpgroup_warps); }
}  // namespace warpgroup

}  // namespace kittens
