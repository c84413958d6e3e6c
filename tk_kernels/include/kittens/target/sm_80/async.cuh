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

template <typename Dst, global_tensor Src>
kittens_device void start_load(Dst& dst, const Src& src, element_coord at, semaphore&, int, site where) {
    group<1>::copy_async(dst, src, at, where);
}

// A place to load from whose batch or depth may be past the tensor's end: what is loaded is then zero.
template <global_tensor Src> kittens_device coord zero_beyond(const Src& src, coord at) {
    if (at.b >= src.batch() || at.d >= src.depth()) at = {0, 0, src.rows() / base_tile + 1, 0};
    return at;
}

// A store is done when it returns.
template <bool Add, global_tensor Dst, typename Src>
kittens_device void start_store(const Dst& dst, const Src& src, element_coord at, site where) {
    __syncwarp();
    if constexpr (is_sv<Src>) {
        for (int i = lane(); i < Src::length; i += warp_threads) {
            if (at.c + i >= dst.cols()) continue;
            auto* to = dst.row(at.b, at.d, at.r) + at.c + i;
            if constexpr (Add) atomicAdd(to, src.data[i]);
            else *to = src.data[i];
        }
    } else if constexpr (Add) {
#pragma unroll 4
        for (int k = lane(); k < Src::rows * Src::cols; k += warp_threads) {
            const int row = k / Src::cols, col = k % Src::cols;
            if (at.r + row < dst.rows() && at.c + col < dst.cols())
                atomicAdd(dst.row(at.b, at.d, at.r + row) + at.c + col, element(src, row, col));
        }
    } else {
        group<1>::store(dst, src, at, where);
    }
    __syncwarp();
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
