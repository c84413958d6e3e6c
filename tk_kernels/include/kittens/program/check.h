// Whether the blocks of a program come to the ends of their queues. Plain C++, for the host.
//
// A counter only grows, so what can run in one replay can run in every one: if the queues end here, where a block runs
// on until it awaits a signal that nobody has sent, they end at any speeds of the blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kittens/program/layout.h"

namespace kittens::program {

// What an instruction has to do with counters; -1 is none.
struct exchange {
    int awaits = -1, at_least = 0;  // it begins when that counter has come so far
    int signals = -1, amount = 1;   // at its end it raises that one
    int in_all = 0;                 // who raises that one as the last, and knows it by this number, goes on for all
};

inline std::string name_of(int block, int index) {
    return "block " + std::to_string(block) + ", instruction " + std::to_string(index);
}

// Replays the queues of a program whose sizes are right. Returns what is wrong, in a sentence, or nothing: a counter
// that does not exist, a wait for ever, a counter that gets other signals than are awaited, or more than an int holds.
// `exchange_of` says of an instruction, its ints, what it exchanges.
template <typename ExchangeOf> std::string check(const std::int32_t* buffer, const ExchangeOf& exchange_of) {
    const int blocks = buffer[header::blocks], capacity = buffer[header::capacity], count = buffer[header::counters];
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    std::vector<int> next(blocks, 0), awaited(count, 0), runnable(blocks);
    std::vector<std::int64_t> signals(count, 0);
    std::vector<std::vector<int>> parked(count);  // blocks that await more of a counter
    std::iota(runnable.rbegin(), runnable.rend(), 0);
    const auto at = [&](int block) -> const std::int32_t* {
        const auto* one = buffer + header_ints + (std::int64_t(block) * capacity + next[block]) * instruction_ints;
        return next[block] == capacity || one[field::opcode] == opcode::stop ? nullptr : one;
    };
    while (!runnable.empty()) {
        const int block = runnable.back();
        runnable.pop_back();
        for (; const std::int32_t* one = at(block); ++next[block]) {
            const exchange with = exchange_of(one);
            for (const int counter : {with.awaits, with.signals})
                if (counter < -1 || counter >= count)
                    return name_of(block, next[block]) + ": counter " + text(counter) + " does not exist";
            if (with.awaits >= 0) {
                awaited[with.awaits] = std::max(awaited[with.awaits], with.at_least);
                if (signals[with.awaits] < with.at_least) {
                    parked[with.awaits].push_back(block);
                    break;
                }
            }
            if (with.signals < 0) continue;
            awaited[with.signals] = std::max(awaited[with.signals], with.in_all);
            signals[with.signals] += with.amount;
            runnable.insert(runnable.end(), parked[with.signals].begin(), parked[with.signals].end());
            parked[with.signals].clear();
        }
    }
    for (int block = 0; block < blocks; ++block)
        if (const std::int32_t* one = at(block)) {
            const exchange with = exchange_of(one);
            return name_of(block, next[block]) + ": awaits " + text(with.at_least) + " signals of counter " +
                   text(with.awaits) + " for ever, which has " + text(signals[with.awaits]);
        }
    for (int i = 0; i < count; ++i) {
        if (signals[i] > std::numeric_limits<int>::max())
            return "counter " + text(i) + ": rises to " + text(signals[i]) + ", more than an int holds";
        if (signals[i] != awaited[i])
            return "counter " + text(i) + ": gets " + text(signals[i]) + " signals, and " + text(awaited[i]) +
                   " are awaited";
    }
    return "";
}

}  // namespace kittens::program
