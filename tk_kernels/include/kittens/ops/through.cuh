// From registers to global memory by way of shared memory, where the copy engine takes over.
#pragma once

namespace kittens {

// dst = src, by way of the warp's own tile `via`, once all but the last `Pending` of its stores have left theirs: warps
// wait for no one else. Still in flight when this returns.
template <int Pending = 0, global_tensor Dst, register_tile Src, shared_tile Via, typename Coord>
kittens_device void store_through(const Dst& dst, const Src& src, Via& via, Coord at, site where = kittens_here) {
    store_read_wait<Pending>(where);
    store(via, src, where);
    fence_async();
    store_async(dst, via, at, where);
}

}  // namespace kittens
