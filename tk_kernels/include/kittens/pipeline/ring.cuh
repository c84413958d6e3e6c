// A ring of buffers between a producer and its consumers, and where each side is in it.
#pragma once

namespace kittens {

// Position in a ring of Stages buffers: the stage, and the parity of the round. A consumer waits for `full` at `parity`;
// a producer for `empty` at `1 - parity`, which a fresh semaphore passes.
template <int Stages> struct ring_position {
    int stage = 0;
    int parity = 0;

    kittens_device void advance() {
        if (++stage == Stages) stage = 0, parity ^= 1;
    }
    kittens_device void advance(int steps) {
        parity ^= (stage + steps) / Stages & 1;
        stage = (stage + steps) % Stages;
    }
};

// Fetches all of the tensors' maps ahead of their first use.
template <typename T, int B, int D, int R, int C, typename... Tiles>
kittens_device void prefetch_maps_of(const gl<T, B, D, R, C, Tiles...>& global) {
    (prefetch_map<Tiles>(global), ...);
}
template <global_tensor... Gls> kittens_device void prefetch_maps(const Gls&... globals) {
    (prefetch_maps_of(globals), ...);
}

// Between setting up the semaphores and using them. The warp that set them up is the loader: it does not wait for the
// others, so that its first loads are on their way while they start; in a cluster it must, since it loads into neighbours.
template <int Warps, int ClusterBlocks> kittens_device void start_pipeline(bool loader) {
    constexpr int barrier = 15;
    if (loader) fence_init();
    if constexpr (ClusterBlocks > 1) sync_cluster();
    else if (loader) arrive_named(barrier, Warps);
    else sync_named(barrier, Warps);
}

}  // namespace kittens
