// sm_80: waiting for a semaphore, and what this target has no need of: clusters, fences for a copy engine, registers
// that move between warpgroups.
#pragma once

#include "kittens/target/gpu/sync.cuh"

namespace kittens {

// One arrival at the same semaphore of block `rank` of the cluster, which is this block.
kittens_device void arrive_at(semaphore& s, int /*rank*/, site where = kittens_here) { arrive(s, where); }

kittens_device void wait(semaphore& s, int parity, site = kittens_here) {
    while (!test(s, parity)) {}
}

kittens_device void sync_cluster(site where = kittens_here) { sync_block(where); }
// Makes the semaphores that this warp has set up visible to the block.
kittens_device void fence_init(site = kittens_here) { __threadfence_block(); }
// fence_init() and a barrier, for every warp of the block.
template <int ClusterBlocks = 1> kittens_device void sync_start(site = kittens_here) {
    static_assert(ClusterBlocks == 1, "sync_start: this target has no clusters; use cluster_blocks = 1");
    sync_block();
}
// Stores by the lanes are seen by the lanes' own copies and multiplies after a barrier alone.
kittens_device void fence_async(site = kittens_here) {}

// There is no copy engine that would see memory in another way than the lanes do.
kittens_device void fence_proxies() {}

// A kernel begins when the ones before it have ended.
kittens_device void start_next_kernel(site = kittens_here) {}
kittens_device void wait_previous_kernel(site = kittens_here) {}

// Every warp keeps the registers that it began with.
template <int Registers> kittens_device void increase_registers() {}
template <int Registers> kittens_device void decrease_registers() {}

}  // namespace kittens
