// Counters from which the blocks of a launch claim numbers, each number once: what every counter has given, to whom.
#pragma once

#include <vector>

#include "kittens/target/cpu/runtime/report.cuh"

namespace kittens::cpu {

class claims {
  public:
    // The next number of a counter that has `numbers` to give; beyond, there are no more. Returns the claim's place.
    size_t take(int* counter, int numbers, const action& who) {
        given& g = of(counter);
        if (g.cleared) cleared_here(g, who);
        if (*counter != g.next)
            fail(name(who), " finds ", *counter, " in a counter that ",
                 g.next == 0 ? text("should be 0: clear it inside the call, before the launch that claims from it")
                             : text("gave ", g.next - 1, " to ", name(g.last),
                                    ": it was written while blocks still claim from it"));
        g.numbers = numbers;
        g.last = who;
        *counter = ++g.next;
        taken_.push_back({g.next - 1, numbers, who});
        return taken_.size() - 1;
    }
    int number_of(size_t place, const action& who) {
        claim& c = taken_.at(place);
        if (c.asked) fail(name(who), " asks for number ", c.number, " of ", name(c.who), " again: a claim is one task");
        c.asked = true;
        return c.number;
    }
    // A block of this launch clears the counter.
    void clear(int* counter, const action& who) {
        given& g = of(counter);
        g.cleared = true, g.clearer = who;
        if (g.numbers >= 0) cleared_here(g, g.last);
    }
    // After the launch: every number has been claimed and asked for.
    void check() const {
        for (const given& g : counters_)
            if (g.next < g.numbers)
                fail("nobody claims numbers ", g.next, " to ", g.numbers - 1, " of a counter; ", name(g.last),
                     " was the last: a block claims until a number is past the end");
        for (const claim& c : taken_)
            if (!c.asked && c.number < c.numbers)
                fail(name(c.who), " claims number ", c.number, " of ", c.numbers,
                     " and never asks for it: nobody does that task");
    }

  private:
    struct given {
        int* counter;
        int next = 0, numbers = -1;
        action last;
        bool cleared = false;
        action clearer;
    };
    struct claim {
        int number, numbers;
        action who;
        bool asked = false;
    };

    given& of(int* counter) {
        for (given& g : counters_)
            if (g.counter == counter) return g;
        counters_.push_back({counter});
        return counters_.back();
    }
    [[noreturn]] static void cleared_here(const given& g, const action& who) {
        fail(name(g.clearer), " clears a counter in the launch in which ", name(who),
             " claims from it: nothing orders the two; clear it in an earlier kernel of the call");
    }

    std::vector<given> counters_;
    std::vector<claim> taken_;
};

}  // namespace kittens::cpu
