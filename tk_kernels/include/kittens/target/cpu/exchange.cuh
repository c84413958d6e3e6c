// cpu: counters that blocks of one launch hand data over by.
#pragma once

#include <atomic>
#include <cstdint>

#include "kittens/target/cpu/sync.cuh"

namespace kittens {

// Raises a counter. Whoever waits for it sees what this warp has stored and waited for, and what barriers have put
// before that: `store_wait` for what the copy engine stores, a barrier for other warps' stores.
kittens_device void signal(const counter& c, int amount = 1, site where = kittens_here) {
    const auto [w, who] = cpu::begin("signal", where);
    w.machine->check_write(w, who);
    if (amount < 1) cpu::fail(cpu::name(who), " raises a counter by ", amount, ": counters only rise");
    cpu::counter_state& state = w.machine->use_counter(w, c, who);
    w.before.hand_over();
    w.machine->start({.what = cpu::effect::kind::signal,
                      .who = who,
                      .agent = w.id,
                      .when = w.now,
                      .carried = w.before,
                      .raised = &state,
                      .amount = amount});
    cpu::next_tick(w);
}

// A signal that tells how many have come, this one among them. Its warp, and those that a barrier or a semaphore puts
// behind it, see what all of these hand over.
kittens_device int signal_and_count(const counter& c, site where = kittens_here) {
    const auto [w, who] = cpu::begin("signal_and_count", where);
    w.machine->check_write(w, who);
    cpu::counter_state& state = w.machine->use_counter(w, c, who);
    w.before.hand_over();
    w.machine->raise_now(w, state, who);
    w.before.join(state.raises.back().gathered);
    w.before.hand_over();
    cpu::next_tick(w);
    return state.value;
}

// Waits until a counter has come so far: by this warp, and by those that a barrier or a semaphore puts behind it.
kittens_device void await(const counter& c, int at_least, site where = kittens_here) {
    const auto [w, who] = cpu::begin("await", where);
    cpu::counter_state& state = w.machine->use_counter(w, c, who);
    if (at_least < 1)
        cpu::fail(cpu::name(who), " waits until a counter holds ", at_least,
                  ": it begins with 0, so that nothing waits");
    if (state.value < at_least) {
        w.waits = {.who = who, .counted = &state, .at_least = at_least};
        state.waiting.push_back({&w, at_least});
        w.machine->sleep(w);
    }
    w.before.join(cpu::counting::pass(state, at_least, w.before, w.id, w.now, who));
    w.before.hand_over();
}

// By one warp of each block, behind the block's last signal and await: the last block clears the set.
kittens_device void retire(const counters& set, site where = kittens_here) {
    const auto [w, who] = cpu::begin("retire", where);
    w.machine->retire(w, set, who);
}

// There is no time: the order in which the warps of a grid ask for it, which is that of the emulator.
inline uint64_t ticks() {
    static std::atomic<uint64_t> asked;
    return ++asked;
}
inline uint64_t nanoseconds() { return ticks(); }

// A wait that never ends is reported by the launch itself.
inline std::string stalled_counter() { return ""; }

}  // namespace kittens
