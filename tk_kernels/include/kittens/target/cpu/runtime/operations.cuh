// What every operation does on the way in: find its warp, give others a turn, and account for what it touches.
#pragma once

#include "kittens/target/cpu/runtime/cluster.cuh"

namespace kittens {

kittens_device int warp_index() { return cpu::this_warp().index; }
kittens_device int warpgroup_index() { return warp_index() / 4; }
kittens_device int warp_in_group() { return warp_index() % 4; }
kittens_device int block_index() { return cpu::this_warp().home->number; }
kittens_device int block_count() { return cpu::this_warp().machine->dimensions().blocks_in_grid; }
kittens_device int cluster_rank() { return cpu::this_warp().home->rank; }

namespace cpu {

inline warp& begin() {
    warp& w = this_warp();
    w.machine->pause(w);
    return w;
}

// The same of an operation that reports name.
struct operation {
    warp& w;
    action who;
};
inline operation begin(const char* op, site where) {
    warp& w = begin();
    return {w, w.doing(op, where)};
}

// What w did so far is known to whoever it just told; what it does next is not.
inline void next_tick(warp& w) { w.before.see(w.id, ++w.now); }

// --- shared memory --------------------------------------------------------------------------------------------
struct runs {
    size_t bytes, count = 1, step = 0;
};

inline void access_shared(warp& w, const action& who, const void* data, bool write, const runs& r) {
    size_t offset;
    block& home = w.machine->locate(data, offset, who);
    const accessor by{w.id, w.now, w.before, who, false};
    home.memory.access(by, write, offset, r.bytes, r.count, r.step);
    if (write)
        for (size_t k = 0; k < r.count; k++) home.memory.mark_written(offset + k * r.step, r.bytes);
}

// By an asynchronous operation that w issues; for loads the memory counts as written once it has landed.
inline void access_shared_async(warp& w, int agent, tick when, const action& who, const void* data, bool write,
                                const runs& r) {
    size_t offset;
    block& home = w.machine->locate(data, offset, who);
    home.memory.access({agent, when, w.before, who, true}, write, offset, r.bytes, r.count, r.step);
}

// Remembered until the block's end: something from outside its warps that must be over by then.
inline void note_inbound(block& b, int agent, tick when, const action& who, const char* doing) {
    if (b.running == 0)
        fail(name(who), " reaches into block ", b.number,
             ", which has ended: no block of a cluster may end while "
             "a neighbour can still ",
             doing, "; end with sync_cluster");
    for (block::inbound& in : b.inbounds)
        if (in.agent == agent && in.doing == doing) {
            in.when = when;
            in.who = who;
            return;
        }
    b.inbounds.push_back({agent, when, who, doing});
}

// The next asynchronous multiply of w: the same one, at the same place, for all four warps of its warpgroup.
inline tick next_multiply(warp& w, const action& who) {
    const int warps = w.machine->dimensions().warps;
    if (w.index / 4 * 4 + 4 > warps)
        fail(name(who), " is issued by a group of ", warps % 4, " warps: a warpgroup has four");
    std::vector<action>& issued = w.home->issued[w.index / 4];
    if (w.multiplies == issued.size()) issued.push_back(who);
    const action& first = issued[w.multiplies];
    if (!same_place(first.at, who.at))
        fail(name(who), " is multiply number ", w.multiplies, " of its warp, but ", name(first),
             " is that of another warp of the group: all four warps of a warpgroup issue each multiply together");
    return ++w.multiplies;
}

// --- registers ------------------------------------------------------------------------------------------------
inline bool overlap(const register_claim& c, const void* data, size_t bytes) {
    const auto* low = static_cast<const unsigned char*>(data);
    return c.low < low + bytes && low < c.high;
}

// A use of registers by the running warp, which no multiply in flight may contradict.
inline void touch_registers(const void* data, size_t bytes, bool write, const char* op, const site* at = nullptr) {
    warp* w = current_warp;
    if (w == nullptr || w->claims.empty()) return;
    for (const register_claim& c : w->claims)
        if (overlap(c, data, bytes) && (write || c.write)) {
            const std::string where = at != nullptr ? name(w->doing(op, *at))
                                                    : text(op, " (block ", w->home->number, ", warp ", w->index, ")");
            fail(where, write ? " changes" : " reads", " a register tile that ", name(c.who), " may still ",
                 c.write ? "write" : "read", ": call warpgroup::mma_wait before its registers are used again");
        }
}

// The end of a register tile's life.
inline void end_registers(const void* data, size_t bytes) noexcept {
    warp* w = current_warp;
    if (w == nullptr || w->claims.empty()) return;
    for (const register_claim& c : w->claims)
        if (overlap(c, data, bytes)) {
            w->machine->drop_multiplies(*w);
            if (std::uncaught_exceptions() == 0)
                w->machine->report_later(text("block ", w->home->number, ", warp ", w->index,
                                              ": a register tile goes out of scope while ", name(c.who), " may still ",
                                              c.write ? "write" : "read", " it: call warpgroup::mma_wait first"));
            w->claims.clear();
            return;
        }
}

}  // namespace cpu
}  // namespace kittens
