// The host interface of the collectives: what the binding may call and nothing more. Plain C++.
#pragma once

#include <cstdint>
#include <string>

namespace tk::collectives {

enum class what { all_reduce, all_reduce_in_two, all_gather, reduce_scatter, all_to_all };

struct problem {
    what collective;
    const void* in;
    void* out;
    std::int64_t cols;  // of a row that one rank gives another, bf16: a multiple of 8
    int rank, ranks;
    // By rank: memory of at least `staging_bytes_for`, and `words` ints, zeros when they are made.
    const std::int64_t* staging;
    const std::int64_t* words;
    std::int64_t staging_bytes;
};

// What each rank has to have.
std::int64_t staging_bytes_for(std::int64_t cols, int ranks);
std::int64_t words();

// Each rank launches its part on its own stream; blocks: of each rank, at most 64. Throws std::invalid_argument for
// more ranks than 8, std::runtime_error where CUDA refuses.
void launch(const problem&, int blocks, void* stream);

// The launches of several ranks in one process, which the cpu target runs together, between these two.
void begin_world(int ranks);
void run_world();

// What a wait that never ended was for, or nothing.
std::string stalled();

}  // namespace tk::collectives
