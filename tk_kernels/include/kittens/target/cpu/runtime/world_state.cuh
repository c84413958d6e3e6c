// What the ranks of a world have in common, GPUs of one host whose launches run at the same time: the shadow of global
// memory, the flags that ranks signal to one another by, and numbers that no two of their launches share.
#pragma once

#include <deque>
#include <unordered_map>

#include "kittens/target/cpu/runtime/counting.cuh"
#include "kittens/target/cpu/runtime/global_shadow.cuh"

namespace kittens::cpu {

struct world_state {
    int agents = 0, launches = 0;
    int yields_in_256 = 0;  // how often a launch lets those of other ranks go on
    global_shadow shadow;

    // The flag at an address, number `index` of the `count` of a rank.
    counter_state& flag(int* words, int rank, int index, int count, const action& who) {
        if (index < 0 || index >= count) fail(name(who), " names flag ", index, " of ", plural(count, "flag"));
        const counter is{words + 1, nullptr, index, count};
        const auto [place, fresh] = flag_at_.try_emplace(is.at(), flags_.size());
        if (fresh) flags_.push_back({.is = is, .rank = rank, .began = *is.at(), .value = *is.at()});
        counter_state& s = flags_[place->second];
        if (*is.at() != s.value)
            fail(name(who), " finds ", *is.at(), " in ", describe(s), ", which should hold ", s.value,
                 ": something else writes its memory; flags only rise, and are cleared when their memory is made");
        return s;
    }
    // A set of counters is one rank's: what they order, they order on its GPU.
    void require_own(const int* words, const action& who) {
        const int owner = counters_of_.try_emplace(words, who.rank).first->second;
        if (owner != who.rank)
            fail(name(who), " uses a counter of rank ", owner, ", which orders nothing between GPUs: use flags");
    }
    // When all launches have ended.
    void check() const {
        for (const counter_state& s : flags_) counting::check(s);
    }

  private:
    std::deque<counter_state> flags_;
    std::unordered_map<int*, size_t> flag_at_;
    std::unordered_map<const int*, int> counters_of_;
};

}  // namespace kittens::cpu
