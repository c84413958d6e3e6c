// cpu: counters that blocks claim numbers from, and single numbers in shared memory.
#pragma once

#include "kittens/target/cpu/sync.cuh"

namespace kittens {

// A number that a warp has claimed and that may still be on its way.
struct claimed {
    size_t place;
};

// Claims the next number of a counter in global memory that held 0 at the launch: 0, 1, ... each once in the whole
// grid. There are `numbers`; what comes after them means that there are no more.
kittens_device claimed claim(int* counter, int numbers, site where = kittens_here) {
    const auto [w, who] = cpu::begin("claim", where);
    w.machine->check_write(w, who);
    w.machine->let_others_run(w, who);
    w.machine->note_write(counter, sizeof(int), who, false, true);
    return {w.machine->claimed_numbers()->take(counter, numbers, who)};
}
// Waits for it. Each claim is asked once.
kittens_device int number_of(claimed c, site where = kittens_here) {
    const auto [w, who] = cpu::begin("number_of", where);
    return w.machine->claimed_numbers()->number_of(c.place, who);
}
// For the launches that follow on the same stream; by one warp of one block.
kittens_device void clear_counter(int* counter, site where = kittens_here) {
    const auto [w, who] = cpu::begin("clear_counter", where);
    w.machine->note_write(counter, sizeof(int), who);
    if (w.machine->claimed_numbers() != nullptr) w.machine->claimed_numbers()->clear(counter, who);
    *counter = 0;
}
// The same by the host, on a stream; of so many that lie together.
inline void clear_counter_on(void* /*stream*/, int* counter, int count = 1) { std::fill_n(counter, count, 0); }

// A number in shared memory, the same in every lane.
kittens_device void store_number(int& to, int number, site where = kittens_here) {
    const auto [w, who] = cpu::begin("store_number", where);
    cpu::access_shared(w, who, &to, true, {sizeof(int)});
    to = number;
}
kittens_device int load_number(const int& from, site where = kittens_here) {
    const auto [w, who] = cpu::begin("load_number", where);
    cpu::access_shared(w, who, &from, false, {sizeof(int)});
    return from;
}

}  // namespace kittens
