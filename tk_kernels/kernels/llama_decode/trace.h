// Where the recording kernels leave what they record. Plain C++.
#pragma once

#include <cstdint>

namespace tk::llama_decode {

// Of the calls that follow, on this thread: `log` has `instructions` places for each block and role, all zero.
void record_into(std::uint64_t* log, int instructions);

}  // namespace tk::llama_decode
