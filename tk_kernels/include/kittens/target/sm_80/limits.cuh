// sm_80: the numbers of its machines: A100, A30, RTX 30 and 40, A10, A40, L4, L40. Shared memory is the least that any
// of them has, so that one configuration runs on all; only kernels that ask for large blocks have what an A100 has.
// Rates and the cache are an A100's.
#pragma once

#include "kittens/target/limits.cuh"

namespace kittens {

struct ampere {
    static constexpr int shared_bytes = 99 * 1024, multiprocessor_shared_bytes = 100 * 1024;
    static constexpr int large_shared_bytes = 163 * 1024;
    static constexpr int reserved_shared_bytes = 1024;
    static constexpr int registers = 65536, thread_registers = 255, spare_registers = 8;
    static constexpr bool moves_registers = false, dependent_launch = false;
    static constexpr int most_cluster_blocks = 1, added_floats = 1;
    static constexpr bool multiplies_behind = false;
    static constexpr std::int64_t l2_bytes = 40 * 1024 * 1024;
    static constexpr double multiply_bytes = 2048, operand_bytes = 64, written_sums = 16, memory_bytes = 1100;
    static constexpr double launch_clocks = 8000;
};
using limits = limits_of<ampere>;

}  // namespace kittens
