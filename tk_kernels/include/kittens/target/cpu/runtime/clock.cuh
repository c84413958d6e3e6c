// Vector clocks: what is certain to have happened before what.
//
// Every warp, every in-order chain of asynchronous operations (a warp's wgmmas, a warp's bulk stores, a row of loads
// of which each is ordered after the one before) and every semaphore's phase count is an agent with a tick of its
// own. An event is (agent, tick); it happened before whoever's clock has seen that tick of that agent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kittens::cpu {

using tick = uint32_t;
constexpr tick never = ~tick(0);  // that an agent ends: who has seen it comes behind all that it did

class clock {
  public:
    bool covers(int agent, tick when) const { return size_t(agent) < seen_.size() && seen_[agent] >= when; }
    tick seen(int agent) const { return size_t(agent) < seen_.size() ? seen_[agent] : 0; }
    void see(int agent, tick when) { raise(seen_, agent, when); }

    // Ordinary stores of a warp, up to a tick, that it fenced for the asynchronous proxy.
    bool covers_fence(int warp, tick when) const { return size_t(warp) < fenced_.size() && fenced_[warp] >= when; }
    void fence(int warp, tick when) { raise(fenced_, warp, when); }

    // The same for global memory, of all that is known to have happened: what counters fence.
    bool covers_hand_over(int agent, tick when) const {
        return size_t(agent) < handed_over_.size() && handed_over_[agent] >= when;
    }
    void hand_over() { join(handed_over_, seen_); }

    void join(const clock& other) {
        join(seen_, other.seen_);
        join(fenced_, other.fenced_);
        join(handed_over_, other.handed_over_);
    }
    void clear() {
        seen_.clear();
        fenced_.clear();
        handed_over_.clear();
    }

  private:
    static void raise(std::vector<tick>& ticks, int agent, tick when) {
        if (ticks.size() <= size_t(agent)) ticks.resize(agent + 1, 0);
        ticks[agent] = std::max(ticks[agent], when);
    }
    static void join(std::vector<tick>& into, const std::vector<tick>& from) {
        if (into.size() < from.size()) into.resize(from.size(), 0);
        for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
    }

    std::vector<tick> seen_, fenced_, handed_over_;
};

}  // namespace kittens::cpu
