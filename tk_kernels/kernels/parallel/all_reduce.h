// The host interface of the all-reduce: what the binding may call and nothing more. Plain C++.
#pragma once

#include <cstdint>

namespace tk::all_reduce {

struct problem {
    const void* in;
    void* out;
    std::int64_t numbers;  // bf16: a multiple of 8
    int rank, ranks;
    // By rank: memory of at least `staging_elements` bf16, and `words` ints, zeros when they are made.
    const std::int64_t* staging;
    const std::int64_t* words;
    std::int64_t staging_bytes;
};

enum class way { one_shot, two_shot };

// What each rank has to have.
std::int64_t staging_elements(std::int64_t numbers, int ranks);
std::int64_t words();

// out = the sum over ranks, of which each launches its part on its own stream; blocks: of each rank, at most 32. Throws
// std::invalid_argument for more ranks than 8, std::runtime_error where CUDA refuses.
void launch(const problem&, way, int blocks, void* stream);

// The launches of several ranks in one process, which the cpu target runs together, between these two.
void begin_world(int ranks);
void run_world();

// What a wait that never ended was for, or nothing.
const char* stalled();

}  // namespace tk::all_reduce
