// Counters of a launch whose blocks wait for one another: what each holds, who has raised it, who waited for it.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "kittens/target/cpu/runtime/clock.cuh"
#include "kittens/target/cpu/runtime/report.cuh"

namespace kittens {
// A GPU says here which wait never ended; this target throws.
inline int* stall_report() { return nullptr; }
}  // namespace kittens

#include "kittens/target/exchange.cuh"

namespace kittens::cpu {

struct warp;

struct counter_state {
    // A signal that has landed: what the counter held then, what its warp knew, and what all up to here knew.
    struct raise {
        int value, amount;
        clock carried, gathered;
        int warp;
        tick when;
        action who;
    };
    // An await that has passed, and the signals that it tells its warp of.
    struct passed {
        action who;
        int warp;
        tick when;
        int at_least;
        std::vector<size_t> told;
    };
    struct sleeper {
        warp* who;
        int at_least;
    };

    counter is;
    int rank = -1;  // a flag of this rank's
    int began = 0;  // a flag: what it held when the first of these launches began
    int value = 0;
    std::vector<raise> raises;
    std::vector<passed> waits;
    std::vector<sleeper> waiting;
};

inline std::string describe(const counter_state& s) {
    return s.rank < 0 ? text("counter ", s.is.index, " of ", s.is.count)
                      : text("flag ", s.is.index, " of rank ", s.rank);
}

// "signal at ... (block 0, warp 0), ...": who has raised it.
inline std::string raised_by(const counter_state& s) {
    if (s.raises.empty()) return "nobody has signalled it";
    std::string words = "signalled by ";
    for (size_t i = 0; i < s.raises.size() && i < 8; i++) words += (i > 0 ? ", " : "") + name(s.raises[i].who);
    return words + (s.raises.size() > 8 ? ", ..." : "");
}

class counting {
  public:
    // The counter that `who`, of a warp and at a moment of its clock, uses.
    counter_state& use(const counter& c, const action& who, int warp, tick when) {
        if (c.index < 0 || c.index >= c.count)
            fail(name(who), " names counter ", c.index, " of a set of ", plural(c.count, "counter"));
        set& home = used(c.words, text("counter ", c.index), who, warp, when);
        const auto [place, fresh] = index_.try_emplace(c.at(), states_.size());
        if (fresh) {
            states_.push_back({c});
            home.members.push_back(place->second);
        }
        counter_state& s = states_[place->second];
        if (*c.at() != s.value)
            fail(name(who), " finds ", *c.at(), " in ", describe(s), ", which should hold ", s.value, ": ",
                 fresh ? "a set of counters is cleared when its memory is made, and left cleared by launches whose "
                         "blocks all retire"
                       : "something else writes its memory");
        return s;
    }

    // Flags of this rank's launch, which its blocks retire from as from a set of counters.
    void use_flags(const int* words, int index, const action& who, int warp, tick when) {
        used(words, text("flag ", index), who, warp, when).flags = true;
    }

    // A signal takes effect.
    static void raise(counter_state& s, int amount, const clock& carried, int warp, tick when, const action& who) {
        if (s.rank >= 0) {  // a flag, which rises to a value
            if (!s.raises.empty() && s.raises.back().who.rank != who.rank)
                fail(name(who), " raises ", describe(s), ", as ", name(s.raises.back().who),
                     " did: a flag has one rank that raises it");
            amount -= s.value;
            if (amount < 1)
                fail(name(who), " raises ", describe(s), " to ", s.value + amount, ", and it holds ", s.value,
                     ": flags only rise");
        }
        s.value += amount;
        *s.is.at() = s.value;
        clock gathered = s.raises.empty() ? clock() : s.raises.back().gathered;
        gathered.join(carried);
        s.raises.push_back({s.value, amount, carried, std::move(gathered), warp, when, who});
    }

    // What an await for `at_least` is sure to know: the signals that first brought the counter so far. Its warp knew
    // what is in `before`.
    static const clock& pass(counter_state& s, int at_least, const clock& before, int warp, tick when,
                             const action& who) {
        std::vector<size_t> told;
        size_t i = 0;
        for (bool enough = s.began >= at_least; !enough; i++) {
            const counter_state::raise& r = s.raises[i];
            if (!before.covers(r.warp, r.when)) told.push_back(i);
            enough = r.value >= at_least;
        }
        s.waits.push_back({who, warp, when, at_least, std::move(told)});
        static const clock nothing;
        return i == 0 ? nothing : s.raises[i - 1].gathered;
    }

    // A block is done with what is at `words`; whether it is the last of `blocks`, and what they all knew.
    bool retires(const int* words, const clock& before, const action& who, int blocks) {
        set& home = set_of(words);
        if (const action* twice = home.retired_by(who.block))
            fail(name(who), " retires after ", name(*twice), " of its own block: each block retires once");
        for (const user& u : home.users)
            if (u.who.block == who.block && !before.covers(u.warp, u.when))
                fail(name(who), " retires while ", name(u.who),
                     " of its own block may still be under way: nothing orders the two; put a barrier between them");
        home.retired.push_back(who);
        home.gathered.join(before);
        return int(home.retired.size()) == blocks;
    }
    const clock& known_to_retired(const int* words) { return set_of(words).gathered; }

    // A block is done with a set of counters; the last of `blocks` clears it.
    void retire(const counters& c, const clock& before, const action& who, int blocks) {
        if (!retires(c.words, before, who, blocks)) return;
        set& home = set_of(c.words);
        for (const size_t i : home.members) {
            *states_[i].is.at() = 0;
            index_.erase(states_[i].is.at());
        }
        home.members.clear();
    }

    // At the end of the launch, which had so many blocks.
    void check(int blocks) const {
        for (const counter_state& s : states_) check(s);
        for (const set& home : sets_) {
            if (home.flags && int(home.retired.size()) < blocks)
                fail("a launch signals or awaits flags and ", home.retired.empty() ? "no block" : "not every block",
                     " retires from them: its rank's epoch is not raised");
            for (const size_t i : home.members)
                if (const counter_state& s = states_[i]; s.value != 0)
                    fail(describe(s), " still holds ", s.value, " at the launch's end (", raised_by(s),
                         "): ", home.retired.empty() ? "no block retires" : "only some blocks retire",
                         "; each block calls retire once, and the last one clears the set");
        }
    }

    // An await must have needed every signal that it relies on: where others could have brought the counter as far, it
    // would have passed without.
    static void check(const counter_state& s) {
        const size_t count = s.raises.size();
        for (const counter_state::passed& p : s.waits) {
            // Signals that may come before the await has passed.
            std::vector<size_t> early;
            int most = s.began;
            for (size_t i = 0; i < count; i++)
                if (!s.raises[i].carried.covers(p.warp, p.when)) {
                    early.push_back(i);
                    most += s.raises[i].amount;
                }
            for (const size_t j : p.told) {
                if (most - s.raises[j].amount < p.at_least) continue;
                int without = s.began;
                for (const size_t i : early)
                    if (!s.raises[i].carried.covers(s.raises[j].warp, s.raises[j].when)) without += s.raises[i].amount;
                if (without < p.at_least) continue;
                std::string words;
                for (const size_t i : early)
                    if (words.size() < 400) words += (words.empty() ? "" : ", ") + name(s.raises[i].who);
                fail(name(p.who), " waits until ", describe(s), " holds ", p.at_least, ", which it may without ",
                     name(s.raises[j].who), ": ", words,
                     " may all come before; wait for all of them, or give them counters of their own");
            }
        }
    }

  private:
    struct user {
        action who;
        int warp;
        tick when;
    };
    struct set {
        const int* words;
        std::vector<user> users;  // of each warp, its newest use
        std::vector<action> retired;
        std::vector<size_t> members;
        bool flags = false;
        clock gathered;  // what blocks knew when they retired

        const action* retired_by(int block) const {
            for (const action& r : retired)
                if (r.block == block) return &r;
            return nullptr;
        }
        void note(const user& u) {
            for (user& old : users)
                if (old.warp == u.warp) {
                    old = u;
                    return;
                }
            users.push_back(u);
        }
    };

    set& used(const int* words, const std::string& what, const action& who, int warp, tick when) {
        set& home = set_of(words);
        if (const action* gone = home.retired_by(who.block))
            fail(name(who), " uses ", what, " after ", name(*gone),
                 " of its own block: retire is behind the block's last signal and await");
        home.note({who, warp, when});
        return home;
    }
    set& set_of(const int* words) {
        for (set& s : sets_)
            if (s.words == words) return s;
        sets_.push_back({.words = words});
        return sets_.back();
    }

    std::deque<counter_state> states_;
    std::deque<set> sets_;
    std::unordered_map<int*, size_t> index_;
};

}  // namespace kittens::cpu
