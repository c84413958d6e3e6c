// cpu: flags between ranks, and their launches, which run side by side as a world.
#pragma once

#include "kittens/target/cpu/exchange.cuh"
#include "kittens/target/cpu/launch.cuh"
#include "kittens/target/cpu/runtime/world.cuh"
#include "kittens/target/ranks.cuh"

namespace kittens {

// The number of launches that have ended on this rank.
template <int Most> kittens_device int epoch(const flags<Most>& f, site where = kittens_here) {
    const auto [w, who] = cpu::begin("epoch", where);
    w.machine->note_read(w, cpu::region_of(f.own(), sizeof(int)), who, true);
    return *f.own();
}

// Raises a flag of rank `to` to a value; no other rank raises that one. Whoever waits for it sees what this warp has
// stored on any rank and waited for, and what barriers and counters have put before that.
template <int Most>
kittens_device void signal(const flags<Most>& f, int to, int index, int value, site where = kittens_here) {
    const auto [w, who] = cpu::begin("signal", where);
    if (to < 0 || to >= f.ranks) cpu::fail(cpu::name(who), " names rank ", to, " of ", f.ranks);
    cpu::counter_state& state = w.machine->use_flag(w, f.words[to], f.own(), to, index, f.count, who);
    w.before.hand_over();
    w.machine->start({.what = cpu::effect::kind::signal,
                      .who = who,
                      .agent = w.id,
                      .when = w.now,
                      .carried = w.before,
                      .raised = &state,
                      .amount = value});
    cpu::next_tick(w);
}

// Waits until a flag of this rank has come so far: by this warp, and by those that a barrier or a semaphore puts behind
// it.
template <int Most>
kittens_device void await(const flags<Most>& f, int index, int at_least, site where = kittens_here) {
    const auto [w, who] = cpu::begin("await", where);
    cpu::counter_state& state = w.machine->use_flag(w, f.own(), f.own(), f.rank, index, f.count, who);
    if (state.value < at_least) {
        w.waits = {.who = who, .counted = &state, .at_least = at_least};
        state.waiting.push_back({&w, at_least});
        w.machine->sleep(w);
    }
    w.before.join(cpu::counting::pass(state, at_least, w.before, w.id, w.now, who));
    w.before.hand_over();
}

// By one warp of each block, behind the block's last signal and await: the last block raises the epoch.
template <int Most> kittens_device void retire(const flags<Most>& f, site where = kittens_here) {
    const auto [w, who] = cpu::begin("retire", where);
    w.machine->retire_flags(w, f.own(), who);
}

namespace cpu {
inline thread_local std::unique_ptr<world> collecting;
}  // namespace cpu

// From here on this thread's launches of ranks wait until they are run, side by side: on a GPU each runs at once.
inline void collect_launches(int ranks) { cpu::collecting = std::make_unique<cpu::world>(ranks); }
// Throws kittens::error where the program is wrong.
inline void run_collected() {
    const std::unique_ptr<cpu::world> world = std::move(cpu::collecting);
    world->run(cpu::current_options().seed);
}

// The launch of one rank of a world.
template <typename Kernel>
void launch_of_rank(const launch_shape& shape, void* /*stream*/, const typename Kernel::globals& globals, int rank) {
    if (cpu::collecting == nullptr)
        cpu::fail(
            "launch_ranks: on the CPU the ranks of a world run in one process: collect their launches, and run "
            "them together");
    cpu::collecting->add(
        rank,
        {.blocks_in_grid = shape.blocks,
         .cluster_blocks = cluster_of<Kernel>(shape),
         .warps = Kernel::warps,
         .shared_bytes = size_t(shape.shared_bytes)},
        [](const void* g) { Kernel::run(*static_cast<const typename Kernel::globals*>(g)); }, globals);
}

}  // namespace kittens
