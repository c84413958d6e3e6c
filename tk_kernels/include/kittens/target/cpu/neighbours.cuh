// cpu: the shared memory of the other blocks of a cluster.
#pragma once

#include "kittens/target/cpu/memory.cuh"
#include "kittens/target/cpu/sync.cuh"

namespace kittens {

// The tile that lies where `src` does, in block `rank` of the cluster. After sync_cluster; that block may not end, nor
// write the tile again, before another.
template <register_tile Dst, shared_tile Src>
kittens_device void load_from(Dst& dst, const Src& src, int rank, site where = kittens_here) {
    static_assert(std::is_same_v<typename Src::T, float> && std::is_same_v<typename Dst::T, float> &&
                      Dst::order == layout::row && Src::rows == Dst::rows && Src::cols == Dst::cols,
                  "load_from: fp32 tiles of one shape, in row layout");
    const auto [w, who] = cpu::begin("load_from", where);
    size_t offset;
    if (&w.machine->locate(src.data, offset, who) != w.home)
        cpu::fail(cpu::name(who), " names another block's memory: the tile is this block's, and `rank` says whose");
    cpu::block& there = w.machine->at_rank(w, rank, who);
    if (&there != w.home) cpu::note_inbound(there, w.id, w.now, who, "read its shared memory");
    dst.touch(true, "load_from", &where);
    const auto& tile = *reinterpret_cast<const Src*>(there.memory.bytes() + offset);
    cpu::access_shared(w, who, tile.data, false, cpu::whole(tile));
    for (int row = 0; row < Dst::rows; row++)
        for (int col = 0; col < Dst::cols; col++) dst.data[row][col] = element(tile, row, col);
    cpu::next_tick(w);
}

}  // namespace kittens
