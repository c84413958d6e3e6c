// sm_90a: the bulk tensor copy engine (TMA). Called by a whole warp, issued by one of its lanes.
#pragma once

#include "kittens/target/gpu/l2.cuh"
#include "kittens/target/sm_90a/sync.cuh"

namespace kittens {

template <typename Gl, typename Tile> kittens_device const void* map_address(const Gl& global) {
    return static_cast<const void*>(&global.template map<Tile>().value);
}

template <bool Matrix>
kittens_device void issue_load(uint32_t to, const void* map, int c, int r, int d, int b, uint32_t bar, uint16_t mask) {
    if constexpr (Matrix) {
        if (mask == 0)
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
                "%3}], [%4];" ::"r"(to),
                "l"(map), "r"(c), "r"(r), "r"(bar)
                : "memory");
        else
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                "l"(map), "r"(c), "r"(r), "r"(bar), "h"(mask)
                : "memory");
    } else {
        if (mask == 0)
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
                "%4, %5}], [%6];" ::"r"(to),
                "l"(map), "r"(c), "r"(r), "r"(d), "r"(b), "r"(bar)
                : "memory");
        else
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
                "l"(map), "r"(c), "r"(r), "r"(d), "r"(b), "r"(bar), "h"(mask)
                : "memory");
    }
}

// The same with a policy for the L2 cache.
template <bool Matrix>
kittens_device void issue_load(uint32_t to, const void* map, int c, int r, int d, int b, uint32_t bar, uint16_t mask,
                               uint64_t policy) {
    if constexpr (Matrix) {
        if (mask == 0)
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
                "l"(map), "r"(c), "r"(r), "r"(bar), "l"(policy)
                : "memory");
        else
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster."
                "L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to),
                "l"(map), "r"(c), "r"(r), "r"(bar), "h"(mask), "l"(policy)
                : "memory");
    } else {
        if (mask == 0)
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                "[%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
                "l"(map), "r"(c), "r"(r), "r"(d), "r"(b), "r"(bar), "l"(policy)
                : "memory");
        else
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster."
                "L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7, %8;" ::"r"(to),
                "l"(map), "r"(c), "r"(r), "r"(d), "r"(b), "r"(bar), "h"(mask), "l"(policy)
                : "memory");
    }
}
// A box of a tensor, as its type has it.
template <typename Box, global_tensor Src>
kittens_device void issue_load_of(const Src& src, uint32_t to, element_coord at, uint32_t bar, int mask) {
    const void* map = map_address<Src, Box>(src);
    if constexpr (is_hinted<Src>)
        issue_load<Src::is_matrix>(to, map, at.c, at.r, at.d, at.b, bar, uint16_t(mask), l2_policy<Src>());
    else issue_load<Src::is_matrix>(to, map, at.c, at.r, at.d, at.b, bar, uint16_t(mask));
}

template <bool Matrix, bool Add>
kittens_device void issue_store(const void* map, uint32_t from, int c, int r, int d, int b) {
    if constexpr (Matrix && !Add)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                     "r"(c), "r"(r), "r"(from)
                     : "memory");
    else if constexpr (Matrix)
        asm volatile(
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
            "r"(c), "r"(r), "r"(from)
            : "memory");
    else if constexpr (!Add)
        asm volatile(
            "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map),
            "r"(c), "r"(r), "r"(d), "r"(b), "r"(from)
            : "memory");
    else
        asm volatile(
            "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(
                map),
            "r"(c), "r"(r), "r"(d), "r"(b), "r"(from)
            : "memory");
}

// A whole vector, which lies in a row of the tensor, without a tensor map.
template <bool Add, global_tensor Dst, shared_vec Src>
kittens_device void issue_plain_store(const Dst& dst, const Src& src, element_coord at) {
    static_assert(!Add || std::is_same_v<typename Dst::T, float>, "store_add_async: vectors without a map are fp32");
    auto* to = dst.row(at.b, at.d, at.r) + at.c;
    if constexpr (Add)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
                     "r"(shared_address(src.data)), "n"(Src::bytes)
                     : "memory");
    else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(shared_address(src.data)), "n"(Src::bytes)
                     : "memory");
}
template <bool Add, global_tensor Dst, typename Src>
kittens_device void issue_stores(const Dst& dst, const Src& src, element_coord at) {
    if constexpr (!is_sv<Src>) {
#pragma unroll
        for (int chunk = 0; chunk < Src::chunks; chunk++)
            issue_store<Dst::is_matrix, Add>(map_address<Dst, Src>(dst),
                                             shared_address(src.data) + chunk * Src::chunk_stride,
                                             at.c + chunk * Src::chunk_cols, at.r, at.d, at.b);
    } else if constexpr (Dst::template has_map<Src>) {
        issue_store<Dst::is_matrix, Add>(map_address<Dst, Src>(dst), shared_address(src.data), at.c, at.r, at.d, at.b);
    } else {
        issue_plain_store<Add>(dst, src, at);
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// While it lives, a warp starts the loads by which `done` completes a phase, `bytes` in all. Whether the announcement
// or the loads come first is the target's business: here it is the announcement.
struct loading {
    kittens_device loading(semaphore& done, int bytes, site = kittens_here) { expect_bytes(done, bytes); }
};

template <typename Dst, global_tensor Src>
kittens_device void start_load(Dst& dst, const Src& src, element_coord at, semaphore& done, int cluster_mask, site) {
    if (!elect()) return;
    if constexpr (is_sv<Dst>) {
        issue_load_of<Dst>(src, shared_address(dst.data), at, shared_address(&done), cluster_mask);
    } else {
#pragma unroll
        for (int chunk = 0; chunk < Dst::chunks; chunk++)
            issue_load_of<Dst>(src, shared_address(dst.data) + chunk * Dst::chunk_stride,
                               {at.b, at.d, at.r, at.c + chunk * Dst::chunk_cols}, shared_address(&done), cluster_mask);
    }
}
template <bool Add, global_tensor Dst, typename Src>
kittens_device void start_store(const Dst& dst, const Src& src, element_coord at, site) {
    __syncwarp();
    if (elect()) issue_stores<Add>(dst, src, at);
    __syncwarp();
}

// Waits until at most Pending of this warp's stores have not yet read their source, or have not yet finished.
template <int Pending = 0> kittens_device void store_read_wait(site = kittens_here) {
    if (elect()) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
    __syncwarp();
}
template <int Pending = 0> kittens_device void store_wait(site = kittens_here) {
    if (elect()) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
    __syncwarp();
}

// Fetches the tensor map itself ahead of its first use.
template <typename Tile, global_tensor Gl> kittens_device void prefetch_map(const Gl& global) {
    if (elect()) asm volatile("prefetch.tensormap [%0];" ::"l"(map_address<Gl, Tile>(global)) : "memory");
}

// A place to load from whose batch or depth may be past the tensor's end, where the copy engine brings zeros.
template <global_tensor Src> kittens_device coord zero_beyond(const Src&, coord at) { return at; }

}  // namespace kittens
