// What blocks of one launch hand to one another through global memory: counters that they raise and wait for. Every
// block of such a launch must be there at once: launch_resident.
#pragma once

namespace kittens {

// One of a set of counters, which holds 0 at the launch: `signal` raises it, `await` waits until it has come so far.
struct counter {
    int* words;   // of the set: how many blocks have retired, then the counters
    int* report;  // where a GPU says which wait never ended
    int index, count;

    kittens_host_device int* at() const { return words + 1 + index; }
};

// A set of counters, in scratch of `words_for(count)` ints. It is cleared once, when the scratch is made. Each launch
// leaves it cleared, because each of its blocks calls `retire`: replays of a CUDA graph need nothing else. Scratch that
// is new at each call is cleared at each call.
struct counters {
    int* words;
    int count;
    int* report;

    counters(int* words_, int count_) : words(words_), count(count_), report(stall_report()) {}

    static constexpr int words_for(int count) { return count + 1; }
    kittens_host_device counter operator[](int index) const { return {words, report, index, count}; }
};

}  // namespace kittens
