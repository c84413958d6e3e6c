// cpu: the bulk tensor copy engine. Loads and stores land late, at a moment that the seed draws.
#pragma once

#include "kittens/target/cpu/sync.cuh"

namespace kittens {
namespace cpu {

// Boxes of a tile or vector: one a chunk.
template <typename Tile> constexpr int boxes() {
    if constexpr (is_sv<Tile>) return 1;
    else return Tile::chunks;
}
template <typename Tile, global_tensor Gl> box box_of(const Gl& global, element_coord at, int chunk) {
    using T = typename Gl::T;
    static_assert(std::is_same_v<T, typename Tile::T>,
                  "asynchronous copies do not convert: the tile and the tensor need one element type");
    if constexpr (!is_sv<Tile>) (void)global.template map<Tile>();
    box b = {reinterpret_cast<unsigned char*>(const_cast<std::remove_const_t<T>*>(global.data)),
             element_of<T>,
             int(sizeof(T)),
             {global.batch(), global.depth(), global.rows(), global.cols()},
             {global.stride[0], global.stride[1], global.stride[2]},
             {at.b, at.d, at.r, at.c},
             1,
             0};
    if constexpr (is_sv<Tile>) {
        b.cols = Tile::length;
    } else {
        b.at[3] += chunk * Tile::chunk_cols;
        b.rows = Tile::rows;
        b.cols = Tile::chunk_cols;
    }
    return b;
}
template <typename Tile> const unsigned char* chunk_address(const Tile& tile, int chunk) {
    if constexpr (is_sv<Tile>) return reinterpret_cast<const unsigned char*>(tile.data);
    else return reinterpret_cast<const unsigned char*>(tile.data) + chunk * Tile::chunk_stride;
}

template <typename Dst, global_tensor Src>
void load_boxes(Dst& dst, const Src& src, element_coord at, semaphore& done, int cluster_mask, site where) {
    warp& w = begin();
    cluster& machine = *w.machine;
    (void)src.template map<Dst>();
    const action who = w.doing("load_async", where);
    const int blocks = machine.dimensions().cluster_blocks;
    if (cluster_mask < 0 || cluster_mask >> blocks != 0)
        fail(name(who), " is cast to the blocks of mask ", cluster_mask, ", but the cluster has ",
             plural(blocks, "block"));
    size_t to, bar;
    if (&machine.locate(dst.data, to, who) != w.home || &machine.locate(&done, bar, who) != w.home)
        fail(name(who),
             " names another block's memory: a multicast names its own, and lands at the same place in each");
    const int mask = cluster_mask == 0 ? 1 << w.home->rank : cluster_mask;
    tick when;
    const int agent = machine.load_chain(w, when);
    for (int rank = 0; rank < blocks; rank++) {
        if ((mask >> rank & 1) == 0) continue;
        block& target = machine.at_rank(w, rank);
        note_inbound(target, agent, when, who, "write its shared memory");
        auto& bar_there = *reinterpret_cast<semaphore*>(target.memory.bytes() + bar);
        semaphore_state& state = use(w, bar_there, who, true);
        for (int chunk = 0; chunk < boxes<Dst>(); chunk++) {
            const box from = box_of<Dst>(src, at, chunk);
            if (chunk == 0) check(from, who, Src::is_matrix);
            machine.note_read(w, region_of(from), who, is_exchanged<Src>, agent, when, true);
            unsigned char* memory = target.memory.bytes() + to + (chunk_address(dst, chunk) - chunk_address(dst, 0));
            access_shared_async(w, agent, when, who, memory, true, {size_t(from.bytes())});
            state.in_flight++;
            machine.start({.what = effect::kind::load,
                           .who = who,
                           .where = from,
                           .memory = memory,
                           .done = &state,
                           .agent = agent,
                           .when = when,
                           .carried = machine.carried_by_loads(w)});
        }
    }
}

template <global_tensor Dst, typename Src>
void store_boxes(const Dst& dst, const Src& src, element_coord at, bool add, const char* op, site where) {
    warp& w = begin();
    const action who = w.doing(op, where);
    if constexpr (is_sv<Src>) {
        constexpr int bytes = int(sizeof(typename Dst::T));
        const int end = at.c + Src::length;
        if (!Dst::template has_map<Src> && (end > dst.cols() || at.r >= dst.rows() || at.c * bytes % 16 != 0))
            fail(name(who), " stores a vector for which the tensor has no map to columns ", at.c, " to ", end - 1,
                 " of row ", at.r, ": it must lie wholly in the tensor (", dst.rows(), " x ", dst.cols(),
                 ") and begin at a multiple of 16 bytes");
    }
    constexpr int unit = 16 / int(sizeof(typename Dst::T));
    const int past_end = at.c + boxes<Src>() * box_of<Src>(dst, at, 0).cols - dst.cols();
    if (past_end > 0 && dst.cols() % unit != 0)
        fail(name(who), " is cut off at column ", dst.cols(),
             ": TMA writes whole 16-byte units and would touch the next ", unit - dst.cols() % unit,
             " elements of the row; give the gl rows of whole units, with padding of their own, ",
             "or store from registers");
    w.machine->check_write(w, who);
    const tick when = ++w.stores;
    w.last_store = who;
    for (int chunk = 0; chunk < boxes<Src>(); chunk++) {
        const box to = box_of<Src>(dst, at, chunk);
        if (chunk == 0) check(to, who, Dst::is_matrix);
        w.machine->note_store(w, region_of(to), who, is_exchanged<Dst>, add);
        auto* memory = const_cast<unsigned char*>(chunk_address(src, chunk));
        access_shared_async(w, w.store_agent, when, who, memory, false, {size_t(to.bytes())});
        w.machine->start({.what = effect::kind::store,
                          .who = who,
                          .where = to,
                          .memory = memory,
                          .agent = w.store_agent,
                          .when = when,
                          .add = add});
    }
}

inline void wait_stores(int pending, bool written) {
    warp& w = begin();
    const tick up_to = w.stores > tick(pending) ? w.stores - tick(pending) : 0;
    w.machine->land_stores(w.store_agent, up_to, written);
    w.stores_read = std::max(w.stores_read, up_to);
    w.before.see(w.store_agent, up_to);
    if (written && w.machine->dimensions().resident) w.before.see(w.written_agent, up_to);
}

}  // namespace cpu

// While it lives, a warp starts the loads by which `done` completes a phase, `bytes` in all. Whether the announcement
// or the loads come first is the target's business: here it is the announcement.
struct loading {
    kittens_device loading(semaphore& done, int bytes, site where = kittens_here) { expect_bytes(done, bytes, where); }
};

// Starts a load; its bytes (Tile::bytes, tails included) are counted by `done`. Elements past the tensor's end are
// zero. With a mask it lands in every block of the cluster whose bit is set, at the same offset, and signals each
// one's `done`.
template <shared_tile Dst, global_tensor Src>
kittens_device void load_async(Dst& dst, const Src& src, element_coord at, semaphore& done, int cluster_mask = 0,
                               site where = kittens_here) {
    cpu::load_boxes(dst, src, at, done, cluster_mask, where);
}
template <shared_vec Dst, global_tensor Src>
kittens_device void load_async(Dst& dst, const Src& src, element_coord at, semaphore& done, int cluster_mask = 0,
                               site where = kittens_here) {
    cpu::load_boxes(dst, src, at, done, cluster_mask, where);
}
template <typename Dst, global_tensor Src>
kittens_device void load_async(Dst& dst, const Src& src, coord at, semaphore& done, int cluster_mask = 0,
                               site where = kittens_here) {
    load_async(dst, src, corner<Dst>(at), done, cluster_mask, where);
}

// Starts a store of this warp's (one bulk group). Elements past the tensor's end are not written. The source may be
// overwritten, and the block may end, after store_read_wait by the warp that stored; after store_wait the global memory
// is written. A vector that the tensor has no map for lies wholly in it, at a multiple of 16 bytes.
template <global_tensor Dst, typename Src>
kittens_device void store_async(const Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    cpu::store_boxes(dst, src, at, false, "store_async", where);
}
// The same, added to what is there (each element atomically; fp32, or 16-bit rounded at each addition).
template <global_tensor Dst, typename Src>
kittens_device void store_add_async(const Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    static_assert(sizeof(typename Src::T) >= 2, "store_add_async: there is no addition of 8-bit elements");
    cpu::store_boxes(dst, src, at, true, "store_add_async", where);
}
template <global_tensor Dst, typename Src>
kittens_device void store_async(const Dst& dst, const Src& src, coord at, site where = kittens_here) {
    store_async(dst, src, corner<Src>(at), where);
}
template <global_tensor Dst, typename Src>
kittens_device void store_add_async(const Dst& dst, const Src& src, coord at, site where = kittens_here) {
    store_add_async(dst, src, corner<Src>(at), where);
}

// Waits until at most Pending of this warp's stores have not yet read their source, or have not yet finished.
template <int Pending = 0> kittens_device void store_read_wait(site = kittens_here) {
    cpu::wait_stores(Pending, false);
}
template <int Pending = 0> kittens_device void store_wait(site = kittens_here) { cpu::wait_stores(Pending, true); }

// Fetches the tensor map itself ahead of its first use: nothing to do here.
template <typename Tile, global_tensor Gl> kittens_device void prefetch_map(const Gl& global) {
    (void)global.template map<Tile>();
}

// A place to load from whose batch or depth may be past the tensor's end, where the copy engine brings zeros.
template <global_tensor Src> kittens_device coord zero_beyond(const Src&, coord at) { return at; }

}  // namespace kittens
