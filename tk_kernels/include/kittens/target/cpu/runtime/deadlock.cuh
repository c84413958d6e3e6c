// Who waits for what: the report of a cluster, or of a grid that runs together, in which nothing can happen any more.
#pragma once

#include "kittens/target/cpu/runtime/machine.cuh"

namespace kittens::cpu {

// "full[2]"; in a cluster also of which block.
inline std::string describe(const std::vector<block>& blocks, const semaphore_state& s) {
    std::string words = blocks[s.block].memory.describe(s.offset, sizeof(uint64_t));
    if (blocks.size() > 1) words += text(" of block ", blocks[s.block].number);
    return words;
}

// " (arrive at ..., ...)": who has arrived in the phase.
inline std::string arrivals(const semaphore_state& s) {
    if (s.arrived.empty()) return "";
    std::string words = " (";
    for (size_t i = 0; i < s.arrived.size() && i < 8; i++) words += (i > 0 ? ", " : "") + name(s.arrived[i]);
    return words + (s.arrived.size() > 8 ? ", ...)" : ")");
}

inline std::string missing(const std::vector<block>& blocks, const semaphore_state& s, tick phase) {
    std::string words = text("phase ", phase, " of ", describe(blocks, s), ", which is in phase ", s.completed, ": ",
                             s.pending, " of ", plural(s.expected, "arrival"), " missing", arrivals(s));
    if (s.bytes > 0) words += text(", ", s.bytes, " of ", s.announced, " announced bytes missing");
    if (s.bytes < 0)
        words += text(", ", -s.bytes, " bytes more have landed than the ", s.announced, " that were announced");
    return words;
}

inline std::string missing(const counter_state& s, int at_least) {
    return text(describe(s), " to hold ", at_least, "; it holds ", s.value, ", ", raised_by(s));
}

// The place of the first block of a block's cluster.
inline int first_of(const block& b) { return b.place - b.rank; }

// `everyone`: warps of all blocks of the cluster belong to the barrier, not only those of w's.
inline std::string missing(const std::vector<warp>& warps, const warp& w, bool everyone) {
    const barrier_state& b = *w.waits.barrier;
    std::string absent;
    for (const warp& other : warps) {
        const bool came = std::find(b.warps.begin(), b.warps.end(), other.id) != b.warps.end();
        const bool belongs = everyone ? first_of(*other.home) == first_of(*w.home) : other.home == w.home;
        if (came || !belongs) continue;
        absent += text(absent.empty() ? "" : ", ", other.home->number, "/", other.index, other.ended ? " (ended)" : "");
    }
    return text(w.waits.barrier_name, ": ", b.arrived.size(), " of ", plural(b.expected, "warp"),
                " came, not there (block/warp): ", absent);
}

inline bool wait_alike(const warp& a, const warp& b) {
    return a.home == b.home && a.waits.semaphore == b.waits.semaphore && a.waits.barrier == b.waits.barrier &&
           a.waits.phase == b.waits.phase && a.waits.counted == b.waits.counted &&
           a.waits.at_least == b.waits.at_least && same_place(a.waits.who.at, b.waits.who.at);
}

constexpr const char* deadlock = "deadlock: no warp can go on and nothing is in flight";

inline std::string who_waits(const std::vector<block>& blocks, const std::vector<warp>& warps,
                             const std::vector<barrier_state>& of_clusters) {
    std::string words, gone;
    std::vector<bool> told(warps.size(), false);
    for (size_t i = 0; i < warps.size(); i++) {
        const warp& w = warps[i];
        if (w.ended) gone += text(gone.empty() ? "" : ", ", w.home->number, "/", w.index);
        if (w.ended || told[i]) continue;
        std::string who;
        for (size_t k = i; k < warps.size(); k++) {
            if (warps[k].ended || !wait_alike(w, warps[k])) continue;
            told[k] = true;
            who += text(who.empty() ? "" : ", ", warps[k].index);
        }
        const bool of_cluster = std::any_of(of_clusters.begin(), of_clusters.end(),
                                            [&](const barrier_state& b) { return w.waits.barrier == &b; });
        words += text("\n  ", of_rank(w.home->gpu), "block ", w.home->number, ", warp ", who, ": ", w.waits.who.op,
                      " at ", place(w.waits.who.at), " waits for ",
                      w.waits.counted != nullptr     ? missing(*w.waits.counted, w.waits.at_least)
                      : w.waits.semaphore != nullptr ? missing(blocks, *w.waits.semaphore, w.waits.phase)
                                                     : missing(warps, w, of_cluster));
    }
    return gone.empty() ? words : words + "\n  ended (block/warp): " + gone;
}

}  // namespace kittens::cpu
