// cpu: semaphores (mbarriers, exactly), barriers, fences.
#pragma once

#include "kittens/target/cpu/memory.cuh"

namespace kittens {

// Counts arrivals and bytes. A phase completes when its arrivals are in and every expected byte has landed; wait(s, p)
// returns once the phase of parity p has completed. A fresh semaphore is in phase 0, so that waiting for parity 1
// passes at once. Memory holds only a mark and a number: the state is the block's.
struct semaphore {
    uint64_t value;
};

namespace cpu {

inline constexpr uint64_t semaphore_mark = 0x6d62617272000000ull;

inline semaphore_state* find_semaphore(warp& w, const semaphore& s, const action& who, block** home = nullptr) {
    size_t offset;
    block& b = w.machine->locate(&s, offset, who);
    if (home != nullptr) *home = &b;
    const uint64_t number = s.value ^ semaphore_mark;
    if (number >= b.semaphores.size() || b.semaphores[number].offset != offset) return nullptr;
    return &b.semaphores[number];
}

// The state of a semaphore that w uses, itself or through an asynchronous operation.
inline semaphore_state& use(warp& w, const semaphore& s, const action& who, bool asynchronous) {
    block* home;
    semaphore_state* state = find_semaphore(w, s, who, &home);
    const auto words = [&] {
        size_t offset;
        return w.machine->locate(&s, offset, who).memory.describe(offset, sizeof(semaphore));
    };
    if (state == nullptr)
        fail(name(who), " uses the semaphore ", words(),
             ", which is not initialised: one warp calls init, then all call sync_start");
    const bool seen = w.before.covers(state->made_by_warp, state->made_at);
    const bool fenced = state->fenced_at != 0 && w.before.covers(state->made_by_warp, state->fenced_at);
    if (!seen || (asynchronous && !fenced))
        fail(name(who), " uses the semaphore ", words(), " while ", name(state->made_by), " may still be under way: ",
             seen ? "asynchronous operations need a fence in between; the warp that called init calls fence_init, or "
                    "all call sync_start"
                  : "nothing orders the two; all warps call sync_start after init");
    if (home->running == 0)
        fail(name(who), " uses the semaphore ", words(), " of block ", home->number,
             ", which has ended: end with sync_cluster");
    return *state;
}

inline void wait_phase(warp& w, semaphore_state& s, int parity, const action& who) {
    // Phases that w knows to be complete; with the parity, that tells which phase it means.
    const tick known = w.before.seen(s.agent);
    const tick target = int(known & 1) != parity ? known : known + 1;
    const auto check = [&] {
        if (s.completed > target)
            fail(name(who), " waits for parity ", parity, " of ", w.machine->describe(s), ": it knows ",
                 plural(known, "completed phase"), " and means ",
                 target == 0 ? "the one before the first" : text("phase ", target - 1), ", but ",
                 plural(s.completed, "phase"),
                 " completed by now; parity cannot tell them apart: the phases must not run ahead of a warp that waits "
                 "for each of them");
    };
    check();
    while (s.completed < target) {
        w.waits = {who, &s, target - 1, nullptr, {}};
        s.waiting.push_back(&w);
        w.machine->sleep(w);
        check();
    }
    w.before.join(s.published);
    s.waited.push_back({w.id, w.now, target, who});
}

// The last one has come: those who wait go on, knowing what all knew.
inline void meet(warp& w, barrier_state& b, bool waits) {
    b.gathered.see(b.agent, ++b.meetings);
    for (warp* other : b.waiting) {
        other->before.join(b.gathered);
        w.machine->make_ready(*other);
    }
    if (waits) w.before.join(b.gathered);
    b.expected = 0;
    b.gathered.clear();
    b.arrived.clear();
    b.warps.clear();
    b.waiting.clear();
}

// Comes to a barrier of `expected` warps; waits for the others unless it only arrives.
inline void come(warp& w, barrier_state& b, int expected, bool waits, const std::string& what, const action& who) {
    if (b.expected == 0) b.expected = expected;
    if (b.expected != expected)
        fail(name(who), " comes to ", what, " of ", plural(expected, "warp"), " while ", name(b.arrived.front()),
             " expects ", b.expected, ": all must name the same number");
    if (b.agent < 0) {
        b.agent = w.machine->new_agent();
        b.last_came.resize(w.machine->warps().size(), 0);
    }
    // Also where the others happen to have come by now, w must know it.
    tick& last = b.last_came[size_t(&w - w.machine->warps().data())];
    if (w.before.seen(b.agent) < last)
        fail(name(who), " comes to ", what,
             " a second time before it knows that the others came once: wait at it, or be ", "told by a warp that did");
    last = b.meetings + 1;
    b.gathered.join(w.before);
    b.arrived.push_back(who);
    b.warps.push_back(w.id);
    next_tick(w);
    if (int(b.warps.size()) == expected) {
        meet(w, b, waits);
    } else if (waits) {
        b.waiting.push_back(&w);
        w.waits = {who, nullptr, 0, &b, what};
        w.machine->sleep(w);
    }
}

inline void check_named(const warp& w, int id, int warps, const action& who) {
    if (id < 1 || id > 15) fail(name(who), " names barrier ", id, ": a block has barriers 1 to 15");
    const int most = w.machine->dimensions().warps;
    if (warps < 1 || warps > most) fail(name(who), " expects ", warps, " warps: a block of this kernel has ", most);
}

inline void make_semaphore(warp& w, semaphore& s, int arrivals, const action& who) {
    if (const auto* old = find_semaphore(w, s, who))
        fail(name(who), " initialises ", w.machine->describe(*old), " again, after ", name(old->made_by),
             ": a semaphore is initialised once");
    access_shared(w, who, &s, true, {sizeof(semaphore)});
    size_t offset;
    block& home = w.machine->locate(&s, offset, who);
    s.value = semaphore_mark ^ home.semaphores.size();
    semaphore_state& state = home.semaphores.emplace_back();
    state.offset = offset;
    state.block = home.place;
    state.expected = state.pending = arrivals;
    state.agent = w.machine->new_agent();
    state.made_by = who;
    state.made_by_warp = w.id;
    state.made_at = w.now;
}

inline void fence_semaphores(warp& w) {
    for (semaphore_state& s : w.home->semaphores)
        if (s.made_by_warp == w.id && s.fenced_at == 0) s.fenced_at = w.now;
}

}  // namespace cpu

// Sets up `count` semaphores in a row, each for `arrivals` a phase. By one warp, which then calls fence_init(); a
// barrier makes them known to the others.
kittens_device void init(semaphore* s, int count, int arrivals, site where = kittens_here) {
    const auto [w, who] = cpu::begin("init", where);
    if (arrivals < 1) cpu::fail(cpu::name(who), " expects ", arrivals, " arrivals: a phase needs at least one");
    for (int i = 0; i < count; i++) cpu::make_semaphore(w, s[i], arrivals, who);
}
kittens_device void init(semaphore& s, int arrivals, site where = kittens_here) { init(&s, 1, arrivals, where); }

// One arrival by the calling warp (after all of its lanes got here).
kittens_device void arrive(semaphore& s, site where = kittens_here) {
    const auto [w, who] = cpu::begin("arrive", where);
    w.machine->arrive(cpu::use(w, s, who, false), w.before, who);
    cpu::next_tick(w);
}

// One arrival at the same semaphore of block `rank` of the cluster; at another block's it takes effect late.
kittens_device void arrive_at(semaphore& s, int rank, site where = kittens_here) {
    const auto [w, who] = cpu::begin("arrive_at", where);
    size_t offset;
    w.machine->locate(&s, offset, who);
    cpu::block& target = w.machine->at_rank(w, rank, who);
    auto& there = *reinterpret_cast<semaphore*>(target.memory.bytes() + offset);
    cpu::semaphore_state& state = cpu::use(w, there, who, rank != w.home->rank);
    if (&target == w.home) {
        w.machine->arrive(state, w.before, who);
    } else {
        cpu::note_inbound(target, w.id, w.now, who, "arrive at its semaphores");
        w.machine->start({.what = cpu::effect::kind::arrival, .who = who, .done = &state, .carried = w.before});
    }
    cpu::next_tick(w);
}

// One arrival that also announces bytes to come in this phase.
kittens_device void expect_bytes(semaphore& s, int bytes, site where = kittens_here) {
    const auto [w, who] = cpu::begin("expect_bytes", where);
    if (bytes < 0 || bytes >= 1 << 20)
        cpu::fail(cpu::name(who), " announces ", bytes, " bytes: a semaphore counts from 0 to 1048575");
    cpu::semaphore_state& state = cpu::use(w, s, who, false);
    w.machine->arrive(state, w.before, who, bytes);
    cpu::next_tick(w);
}

kittens_device void wait(semaphore& s, int parity, site where = kittens_here) {
    const auto [w, who] = cpu::begin("wait", where);
    if (parity != 0 && parity != 1)
        cpu::fail(cpu::name(who), " waits for parity ", parity, ": a phase has parity 0 or 1");
    cpu::wait_phase(w, cpu::use(w, s, who, false), parity, who);
}

// --- barriers -------------------------------------------------------------------------------------------------
kittens_device void sync_warp() {}

kittens_device void sync_block(site where = kittens_here) {
    const auto [w, who] = cpu::begin("sync_block", where);
    cpu::come(w, w.home->barriers[0], w.machine->dimensions().warps, true, "the block's barrier", who);
}
kittens_device void sync_cluster(site where = kittens_here) {
    const auto [w, who] = cpu::begin("sync_cluster", where);
    const auto& shape = w.machine->dimensions();
    cpu::come(w, w.machine->cluster_barrier(w), shape.warps * shape.cluster_blocks, true, "the cluster's barrier", who);
}
// Makes the semaphores that this warp has set up visible to asynchronous loads and to the cluster.
kittens_device void fence_init(site = kittens_here) { cpu::fence_semaphores(cpu::begin()); }
// fence_init() and a barrier, for every warp of the block or cluster.
template <int ClusterBlocks = 1> kittens_device void sync_start(site where = kittens_here) {
    const auto [w, who] = cpu::begin("sync_start", where);
    if (ClusterBlocks != w.machine->dimensions().cluster_blocks)
        cpu::fail(cpu::name(who), " is for clusters of ", ClusterBlocks, ", but the launch has clusters of ",
                  w.machine->dimensions().cluster_blocks);
    cpu::fence_semaphores(w);
    if constexpr (ClusterBlocks > 1) sync_cluster(where);
    else sync_block(where);
}
// Barrier number id (1 .. 15) among `warps` warps.
kittens_device void sync_named(int id, int warps, site where = kittens_here) {
    const auto [w, who] = cpu::begin("sync_named", where);
    cpu::check_named(w, id, warps, who);
    cpu::come(w, w.home->barriers[id], warps, true, cpu::text("barrier ", id), who);
}
kittens_device void arrive_named(int id, int warps, site where = kittens_here) {
    const auto [w, who] = cpu::begin("arrive_named", where);
    cpu::check_named(w, id, warps, who);
    cpu::come(w, w.home->barriers[id], warps, false, cpu::text("barrier ", id), who);
}

// Makes this warp's ordinary stores to shared memory visible to TMA and wgmma; a barrier follows where other warps
// issue.
kittens_device void fence_async(site = kittens_here) {
    cpu::warp& w = cpu::begin();
    w.before.fence(w.id, w.now);
    w.before.fence(w.copy_agent, w.before.seen(w.copy_agent));  // those that have landed
}

// --- dependent launch -----------------------------------------------------------------------------------------------
// By any warp: once every block has said so or ended, the stream's next kernel may begin, if it `starts_early`. Here it
// is launched once this one has ended, and what it does before its wait is checked.
kittens_device void start_next_kernel(site = kittens_here) { cpu::begin(); }
// Until the kernels before this one have ended and what they stored can be read: by this warp, and by those that a
// barrier or a semaphore puts behind it.
kittens_device void wait_previous_kernel(site = kittens_here) {
    cpu::warp& w = cpu::begin();
    w.machine->wait_previous_kernel(w);
}

// --- register re-allocation: checked for legality only ----------------------------------------------------------
template <int Registers> kittens_device void increase_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256,
                  "increase_registers: a thread has a multiple of 8 registers, 24 to 256; of a pipeline that is the "
                  "kernel's consumer_registers");
}
template <int Registers> kittens_device void decrease_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256,
                  "decrease_registers: a thread has a multiple of 8 registers, 24 to 256; of a pipeline it is what the "
                  "kernel's consumer_registers leave");
}

namespace warpgroup {
// Barrier of this warpgroup's four warps; ids 1 .. 15 are the block's.
kittens_device void sync(int id, site where = kittens_here) { sync_named(id, warpgroup_warps, where); }
}  // namespace warpgroup

}  // namespace kittens
