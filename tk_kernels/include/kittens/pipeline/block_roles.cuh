// Who does what in a block of a pipeline: K::consumers warpgroups compute; behind them is the producer, of whose warps
// so many have work. The first of them is the loader.
#pragma once

#include "kittens/pipeline/ring.cuh"

namespace kittens {

// Between setting up the semaphores and using them. The warp that set them up is the loader: it does not wait for the
// others, so that its first loads are on their way while they start; in a cluster it must, since it loads into
// neighbours.
template <int Warps, int ClusterBlocks> kittens_device void start_pipeline(bool loader) {
    constexpr int barrier = 15;
    if (loader) fence_init();
    if constexpr (ClusterBlocks > 1) sync_cluster();
    else if (loader) arrive_named(barrier, Warps);
    else sync_named(barrier, Warps);
}

template <typename K, int ProducingWarps, int BlocksPerSm = 1> struct block_roles {
    static constexpr int cluster_blocks = 1, blocks_per_sm = BlocksPerSm;
    static constexpr bool starts_early = kittens::starts_early<K>;
    static constexpr int warps = limits::pipeline_warps(K::consumers, ProducingWarps);
    static constexpr int computing_warps = warpgroup_warps * K::consumers;
    static constexpr int left_registers = limits::producer_registers(K::consumers, K::consumer_registers, BlocksPerSm);
    static_assert(left_registers >= limits::least_registers, "the consumers ask for more registers than the block has");

    kittens_device static bool is_loader() { return warp_index() == computing_warps; }

    // By whole warpgroups, each once: the producer's registers go to the consumers. With consumer_registers 0 nobody
    // asks for more than it begins with.
    static constexpr bool moves = K::consumer_registers > 0;
    kittens_device static void decrease_registers() {
        if constexpr (moves) kittens::decrease_registers<left_registers>();
    }
    kittens_device static void increase_registers() {
        if constexpr (moves) kittens::increase_registers<K::consumer_registers>();
    }
    // Whether this warp is one of the producer's; its registers have moved.
    kittens_device static bool produces() {
        const bool producer = warpgroup_index() == K::consumers;
        if (producer) decrease_registers();
        else increase_registers();
        return producer;
    }
};

}  // namespace kittens
