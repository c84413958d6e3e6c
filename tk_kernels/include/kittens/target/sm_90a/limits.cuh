// sm_90a: the numbers of its machines; rates and sizes of caches are those of an H200.
#pragma once

#include "kittens/target/limits.cuh"

namespace kittens {

struct hopper {
    static constexpr int shared_bytes = 227 * 1024, multiprocessor_shared_bytes = 228 * 1024;
    static constexpr int large_shared_bytes = shared_bytes;
    static constexpr int reserved_shared_bytes = 1024;
    static constexpr int registers = 65536, thread_registers = 255, spare_registers = 0;
    static constexpr bool moves_registers = true, dependent_launch = true;
    static constexpr int most_cluster_blocks = 8, added_floats = 4;
    static constexpr bool multiplies_behind = true;
    static constexpr std::int64_t l2_bytes = 60 * 1024 * 1024;
    static constexpr double multiply_bytes = 4096, operand_bytes = 64, written_sums = 16, memory_bytes = 2500;
    static constexpr double launch_clocks = 8000;
};
using limits = limits_of<hopper>;

}  // namespace kittens
