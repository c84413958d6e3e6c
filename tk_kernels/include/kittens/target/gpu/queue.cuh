// GPU targets: counters that blocks claim numbers from, and single numbers in shared memory.
#pragma once

#include "kittens/target/gpu/registers.cuh"

namespace kittens {

// A number that a warp has claimed and that may still be on its way.
struct claimed {
    int in_first_lane;
};

// Claims the next number of a counter in global memory that held 0 at the launch: 0, 1, ... each once in the whole
// grid. There are `numbers`; what comes after them means that there are no more.
kittens_device claimed claim(int* counter, int /*numbers*/, site = kittens_here) {
    return {lane() == 0 ? atomicAdd(counter, 1) : 0};
}
// Waits for it. Each claim is asked once.
kittens_device int number_of(claimed c, site = kittens_here) { return uniform(c.in_first_lane); }
// For the launches that follow on the same stream; by one warp of one block.
kittens_device void clear_counter(int* counter, site = kittens_here) {
    if (lane() == 0) *counter = 0;
}
// The same by the host, on a stream; of so many that lie together.
inline void clear_counter_on(void* stream, int* counter, int count = 1) {
    check_cuda(cudaMemsetAsync(counter, 0, count * sizeof(int), static_cast<cudaStream_t>(stream)),
               "clearing a counter");
}

// A number in shared memory, the same in every lane.
kittens_device void store_number(int& to, int number, site = kittens_here) {
    if (lane() == 0) *static_cast<volatile int*>(&to) = number;
}
kittens_device int load_number(const int& from, site = kittens_here) {
    return uniform(*static_cast<const volatile int*>(&from));
}

}  // namespace kittens
