// Who wrote and who read each byte of global memory last, in a launch whose blocks are all there at once: every access
// must be ordered after those that it conflicts with.
#pragma once

#include <unordered_map>
#include <vector>

#include "kittens/target/cpu/runtime/boxes.cuh"
#include "kittens/target/cpu/runtime/clock.cuh"

namespace kittens::cpu {

// Who accesses global memory, by which chain of operations, and what is certain to have happened before.
struct global_accessor {
    int agent;
    tick when;
    const clock& before;
    const action& who;
    const clock& known;  // when its launch began
    int cluster, launch, rank;
    bool asynchronous;  // by the copy engine
    bool exchanged;     // the tensor is one that blocks hand to one another
};

enum class access { read, write, add };

class global_shadow {
  public:
    void touch(const global_accessor& by, access what, const region& where) {
        for (int row = 0; row < where.rows; row++) {
            uintptr_t at = where.row(row);
            for (const uintptr_t end = at + where.bytes; at < end;) {
                const uintptr_t number = at / page_bytes, stop = std::min(end, (number + 1) * page_bytes);
                check(pages_[number], by, what, uint16_t(at % page_bytes), uint16_t(stop - number * page_bytes));
                at = stop;
            }
        }
    }

  private:
    static constexpr uintptr_t page_bytes = 1024;

    struct record {
        uint16_t low, high;  // within the page
        access what;
        bool asynchronous, exchanged;
        int agent, cluster, launch, rank;
        tick when;
        action who;
    };

    static void check(std::vector<record>& page, const global_accessor& by, access what, uint16_t low, uint16_t high) {
        for (size_t i = 0; i < page.size();) {
            const record& past = page[i];
            if (past.high <= low || past.low >= high) {
                i++;
                continue;
            }
            const bool ordered = by.before.covers(past.agent, past.when);
            const bool conflict = (what != access::read || past.what != access::read) &&
                                  !(what == access::add && past.what == access::add);
            if (conflict && !ordered) race(past, by, what);
            // Whoever comes behind a launch, its rank's next one and whom that one tells, has nothing to declare.
            const bool apart = past.launch == by.launch ? past.cluster != by.cluster : past.rank != by.rank;
            const bool behind = by.before.covers(past.agent, never) || by.known.covers(past.agent, past.when);
            if (conflict && apart && !behind && !(past.exchanged && by.exchanged)) undeclared(past, by, what);
            if (by.asynchronous && past.what != access::read && !past.asynchronous &&
                !by.before.covers_hand_over(past.agent, past.when))
                missing_fence(past, by, what);
            // Whoever comes after this access also comes after an ordered one that it covers.
            const bool replaced =
                ordered && low <= past.low && past.high <= high && (what == access::write || past.what == access::read);
            if (replaced) {
                page[i] = page.back();
                page.pop_back();
            } else {
                i++;
            }
        }
        if (!page.empty() && continues(page.back(), by, what, low)) page.back().high = high;
        else
            page.push_back({low, high, what, by.asynchronous, by.exchanged, by.agent, by.cluster, by.launch, by.rank,
                            by.when, by.who});
    }

    static bool continues(const record& last, const global_accessor& by, access what, uint16_t low) {
        return last.high == low && last.what == what && last.agent == by.agent && last.when == by.when &&
               last.exchanged == by.exchanged && same_place(last.who.at, by.who.at);
    }

    static const char* does(access what) {
        return what == access::read ? " reads" : what == access::write ? " writes" : " adds to";
    }
    static const char* did(access what) {
        return what == access::read ? "read" : what == access::write ? "write" : "add to";
    }

    [[noreturn]] static void race(const record& past, const global_accessor& by, access what) {
        fail(name(by.who), does(what), " global memory that ", name(past.who), " may still ", did(past.what),
             ": nothing orders the two; ", advice(past));
    }
    static const char* advice(const record& past) {
        if (past.what == access::read)
            return "who reads signals a counter once it has the data, and who writes awaits it before writing again";
        if (past.asynchronous)
            return "the warp that stored calls store_wait (store_read_wait says only that the source is free) and "
                   "signals a counter; who uses the data awaits it";
        return "who stored signals a counter, behind a barrier where other warps stored; who uses the data awaits it";
    }
    [[noreturn]] static void undeclared(const record& past, const global_accessor& by, access what) {
        fail(name(by.who), does(what), " global memory that ", name(past.who), ", of another block, did ",
             did(past.what), " in this launch: a tensor that blocks hand to one another is `exchanged`");
    }
    [[noreturn]] static void missing_fence(const record& past, const global_accessor& by, access what) {
        fail(name(by.who), does(what), " global memory after ", name(past.who),
             " wrote it with ordinary stores and without a fence: the copy engine may miss them; hand it over by "
             "signal and await, which fence");
    }

    std::unordered_map<uintptr_t, std::vector<record>> pages_;
};

}  // namespace kittens::cpu
