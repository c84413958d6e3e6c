// sm_80: loads and stores of tiles, which the lanes of the calling warp carry out. Loads land late (cp.async), stores
// are done when they return.
#pragma once

#include "kittens/target/gpu/memory.cuh"
#include "kittens/target/sm_80/sync.cuh"

namespace kittens {

// While it lives, a warp starts the loads by which `done` completes a phase. At its end every lane announces an arrival
// that it makes once its copies have landed (which leaves the count as it was), and the warp arrives itself.
struct loading {
    semaphore& done;

    kittens_device loading(semaphore& done_, int /*bytes*/, site = kittens_here) : done(done_) {}
    loading(const loading&) = delete;
    kittens_device ~loading() {
        asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(shared_address(&done)) : "memory");
        arrive(done);
    }
};

// Starts a load, which `done` waits for. Elements past the tensor's end are zero.
template <shared_tile Dst, global_tensor Src>
kittens_device void load_async(Dst& dst, const Src& src, element_coord at, semaphore&, int = 0,
                               site where = kittens_here) {
    group<1>::copy_async(dst, src, at, where);
}
template <shared_vec Dst, global_tensor Src>
kittens_device void load_async(Dst& dst, const Src& src, element_coord at, semaphore&, int = 0,
                               site where = kittens_here) {
    group<1>::copy_async(dst, src, at, where);
}
template <typename Dst, global_tensor Src>
kittens_device void load_async(Dst& dst, const Src& src, coord at, semaphore& done, int cluster_mask = 0,
                               site where = kittens_here) {
    load_async(dst, src, corner<Dst>(at), done, cluster_mask, where);
}

// A place to load from whose batch or depth may be past the tensor's end: what is loaded is then zero.
template <global_tensor Src> kittens_device coord zero_beyond(const Src& src, coord at) {
    if (at.b >= src.batch() || at.d >= src.depth()) at = {0, 0, src.rows() / base_tile + 1, 0};
    return at;
}

// Stores a tile or vector. Elements past the tensor's end are not written.
template <global_tensor Dst, shared_tile Src>
kittens_device void store_async(const Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    __syncwarp();
    group<1>::store(dst, src, at, where);
    __syncwarp();
}
template <global_tensor Dst, shared_vec Src>
kittens_device void store_async(const Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    __syncwarp();
    for (int i = lane(); i < Src::length; i += warp_threads)
        if (at.c + i < dst.cols()) dst.row(at.b, at.d, at.r)[at.c + i] = src.data[i];
    __syncwarp();
}
// The same, added to what is there (each element atomically; fp32, or 16-bit rounded at each addition).
template <global_tensor Dst, typename Src>
kittens_device void store_add_async(const Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    static_assert(sizeof(typename Src::T) >= 2, "store_add_async: there is no addition of 8-bit elements");
    __syncwarp();
    if constexpr (is_sv<Src>) {
        for (int i = lane(); i < Src::length; i += warp_threads)
            if (at.c + i < dst.cols()) atomicAdd(dst.row(at.b, at.d, at.r) + at.c + i, src.data[i]);
    } else {
#pragma unroll 4
        for (int k = lane(); k < Src::rows * Src::cols; k += warp_threads) {
            const int row = k / Src::cols, col = k % Src::cols;
            if (at.r + row < dst.rows() && at.c + col < dst.cols())
                atomicAdd(dst.row(at.b, at.d, at.r + row) + at.c + col, element(src, row, col));
        }
    }
    __syncwarp();
}
template <global_tensor Dst, typename Src>
kittens_device void store_async(const Dst& dst, const Src& src, coord at, site where = kittens_here) {
    store_async(dst, src, corner<Src>(at), where);
}
template <global_tensor Dst, typename Src>
kittens_device void store_add_async(const Dst& dst, const Src& src, coord at, site where = kittens_here) {
    store_add_async(dst, src, corner<Src>(at), where);
}

// A tile of block `rank` of the cluster, which is this block.
template <register_tile Dst, shared_tile Src>
kittens_device void load_from(Dst& dst, const Src& src, int /*rank*/, site where = kittens_here) {
    load(dst, src, where);
}

// A store has read its source, and written, when it returns.
template <int Pending = 0> kittens_device void store_read_wait(site = kittens_here) {}
template <int Pending = 0> kittens_device void store_wait(site = kittens_here) {}

// There are no tensor maps to fetch.
template <typename Tile, global_tensor Gl> kittens_device void prefetch_map(const Gl&) {}

}  // namespace kittens
