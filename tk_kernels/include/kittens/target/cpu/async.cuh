// cpu: the bulk tensor copy engine. Loads and stores land late, at a moment that the seed draws.
#pragma once

#include "kittens/target/cpu/sync.cuh"

namespace kittens {
namespace cpu {

template <typename Tile, global_tensor Gl> box box_of(const Gl& global, element_coord at, int chunk) {
    using T = typename Gl::T;
    static_assert(std::is_same_v<T, typename Tile::T>,
                  "asynchronous copies do not convert: the tile and the tensor need one element type");
    if constexpr (!is_sv<Tile>) (void)global.template map<Tile>();
    const int cols = cols_of<Tile>() / boxes<Tile>();
    return box_at(global, {at.b, at.d, at.r, at.c + chunk * cols}, rows_of<Tile>(), cols);
}
template <typename Tile> const unsigned char* chunk_address(const Tile& tile, int chunk) {
    if constexpr (is_sv<Tile>) return reinterpret_cast<const unsigned char*>(tile.data);
    else return reinterpret_cast<const unsigned char*>(tile.data) + chunk * Tile::chunk_stride;
}

}  // namespace cpu

template <typename Dst, global_tensor Src>
void start_load(Dst& dst, const Src& src, element_coord at, semaphore& done, int cluster_mask, site where) {
    using namespace cpu;
    const auto [w, who] = begin("load_async", where);
    cluster& machine = *w.machine;
    (void)src.template map<Dst>();
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
        block& target = machine.at_rank(w, rank, who);
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

template <bool Add, global_tensor Dst, typename Src>
void start_store(const Dst& dst, const Src& src, element_coord at, site where) {
    using namespace cpu;
    const auto [w, who] = begin(Add ? "store_add_async" : "store_async", where);
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
        w.machine->note_store(w, region_of(to), who, is_exchanged<Dst>, Add);
        auto* memory = const_cast<unsigned char*>(chunk_address(src, chunk));
        access_shared_async(w, w.store_agent, when, who, memory, false, {size_t(to.bytes())});
        w.machine->start({.what = effect::kind::store,
                          .who = who,
                          .where = to,
                          .memory = memory,
                          .agent = w.store_agent,
                          .when = when,
                          .add = Add});
    }
}

namespace cpu {
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
