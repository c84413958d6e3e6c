// sm_90a: what semaphores count of the copy engine's bytes and of a cluster, clusters' barriers, fences, re-allocation
// of registers.
#pragma once

#include "kittens/target/gpu/sync.cuh"

namespace kittens {

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

kittens_device void wait(semaphore& s, int parity, site = kittens_here) {
    asm volatile(
        "{ .reg .pred p;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@!p bra again; }" ::"r"(shared_address(&s)),
        "r"(parity)
        : "memory");
}

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
// Makes this warp's ordinary stores to shared memory visible to TMA and wgmma; a barrier follows where other warps
// issue.
kittens_device void fence_async(site = kittens_here) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Between what threads and what the copy engine reads and writes, in global memory too, in both directions.
kittens_device void fence_proxies() { asm volatile("fence.proxy.async;" ::: "memory"); }

// --- dependent launch -----------------------------------------------------------------------------------------------
// By any warp: once every block has said so or ended, the stream's next kernel may begin, if it `starts_early`.
kittens_device void start_next_kernel(site = kittens_here) { asm volatile("griddepcontrol.launch_dependents;"); }
// Until the kernels before this one have ended and what they stored can be read: by this warp, and by those that a
// barrier or a semaphore puts behind it.
kittens_device void wait_previous_kernel(site = kittens_here) { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// --- register re-allocation: by whole warpgroups, a multiple of 8 between 24 and 256 ---------------------------
template <int Registers> kittens_device void increase_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers> kittens_device void decrease_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace kittens
