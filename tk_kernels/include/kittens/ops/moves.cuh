// Moves between registers, shared and global memory, for warps and warpgroups; places are tile coordinates or elements.
// Elements past a tensor's end load as zero and are not stored.
#pragma once

namespace kittens {

template <register_tile Dst, shared_tile Src>
kittens_device void load(Dst& dst, const Src& src, site where = kittens_here) {
    load_tile<warp_rows>(dst, src, where);
}
template <shared_tile Dst, register_tile Src>
kittens_device void store(Dst& dst, const Src& src, site where = kittens_here) {
    store_tile<warp_rows>(dst, src, where);
}
template <register_tile Dst, global_tensor Src, coordinate At>
kittens_device void load(Dst& dst, const Src& src, At at, site where = kittens_here) {
    load_tile<warp_rows>(dst, src, corner<Dst>(at), where);
}
template <global_tensor Dst, register_tile Src, coordinate At>
kittens_device void store(const Dst& dst, const Src& src, At at, site where = kittens_here) {
    store_tile<warp_rows>(dst, src, corner<Src>(at), where);
}
template <register_vec Dst, global_tensor Src, coordinate At>
kittens_device void load(Dst& dst, const Src& src, At at, site where = kittens_here) {
    load_vec(dst, src, corner<Dst>(at), where);
}
template <global_tensor Dst, register_vec Src, coordinate At>
kittens_device void store(const Dst& dst, const Src& src, At at, site where = kittens_here) {
    store_vec(dst, src, corner<Src>(at), where);
}

// Packed tiles: fp32 in the order in which a target's registers hold it.
template <register_tile Dst, global_tensor Src>
kittens_device void load_packed(Dst& dst, const Src& src, coord at, site where = kittens_here) {
    load_packed_tile<warp_rows>(dst, src, at, where);
}
template <global_tensor Dst, register_tile Src>
kittens_device void store_packed(const Dst& dst, const Src& src, coord at, site where = kittens_here) {
    store_packed_tile<warp_rows>(dst, src, at, where);
}

// Starts a load; its bytes (Tile::bytes, tails included) are counted by `done`. With a mask it lands in every block of
// the cluster whose bit is set, at the same offset, and signals each one's `done`.
template <typename Dst, global_tensor Src, coordinate At>
kittens_device void load_async(Dst& dst, const Src& src, At at, semaphore& done, int cluster_mask = 0,
                               site where = kittens_here) {
    start_load(dst, src, corner<Dst>(at), done, cluster_mask, where);
}
// Starts a store of this warp's (one bulk group). TMA writes whole 16-byte units (seen on an H200), so a tensor whose
// rows end inside one needs padding of its own there. The source may be overwritten, and the block may end, after
// store_read_wait by the warp that stored; after store_wait the global memory is written. A vector that the tensor has
// no map for lies wholly in it, at a multiple of 16 bytes.
template <global_tensor Dst, typename Src, coordinate At>
kittens_device void store_async(const Dst& dst, const Src& src, At at, site where = kittens_here) {
    start_store<false>(dst, src, corner<Src>(at), where);
}
// The same, added to what is there (each element atomically; fp32, or 16-bit rounded at each addition).
template <global_tensor Dst, typename Src, coordinate At>
kittens_device void store_add_async(const Dst& dst, const Src& src, At at, site where = kittens_here) {
    static_assert(sizeof(typename Src::T) >= 2, "store_add_async: there is no addition of 8-bit elements");
    start_store<true>(dst, src, corner<Src>(at), where);
}

namespace warpgroup {

template <register_tile Dst, shared_tile Src>
kittens_device void load(Dst& dst, const Src& src, site where = kittens_here) {
    load_tile<warpgroup_rows>(dst, src, where);
}
template <shared_tile Dst, register_tile Src>
kittens_device void store(Dst& dst, const Src& src, site where = kittens_here) {
    store_tile<warpgroup_rows>(dst, src, where);
}
template <register_tile Dst, global_tensor Src>
kittens_device void load(Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    load_tile<warpgroup_rows>(dst, src, at, where);
}
template <global_tensor Dst, register_tile Src>
kittens_device void store(const Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    store_tile<warpgroup_rows>(dst, src, at, where);
}
template <register_tile Dst, global_tensor Src>
kittens_device void load_packed(Dst& dst, const Src& src, coord at, site where = kittens_here) {
    load_packed_tile<warpgroup_rows>(dst, src, at, where);
}
template <global_tensor Dst, register_tile Src>
kittens_device void store_packed(const Dst& dst, const Src& src, coord at, site where = kittens_here) {
    store_packed_tile<warpgroup_rows>(dst, src, at, where);
}

}  // namespace warpgroup
}  // namespace kittens
