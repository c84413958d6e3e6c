// What configurations of kernels and models of their cost ask of a machine, worked out from the numbers that a target
// gives.
#pragma once

#include <cstdint>

namespace kittens {

// Numbers of a machine: shared_bytes (of a block), large_shared_bytes (of one on those of a target's machines that have
// more), multiprocessor_shared_bytes, reserved_shared_bytes (that each block
// costs besides); registers (of a multiprocessor), thread_registers (of a thread, at most), spare_registers (that a
// thread takes more of than on Hopper), moves_registers (whether warpgroups may take from one another); added_floats
// (that a thread adds to memory at once);
// dependent_launch (whether a kernel may start before the one ahead of it has ended); most_cluster_blocks;
// multiplies_behind (whether a multiply goes on when it returns); and, for models of cost, l2_bytes and, a clock,
// multiply_bytes (a multiprocessor's: rows x columns x bytes of K), operand_bytes (that reach a multiprocessor from
// L2), written_sums (that leave it), memory_bytes (of all multiprocessors); launch_clocks.
template <typename Numbers> struct limits_of : Numbers {
    // Of each of so many blocks that share a multiprocessor.
    static constexpr int shared_bytes_of(int blocks_per_sm) {
        const int share = Numbers::multiprocessor_shared_bytes / blocks_per_sm - Numbers::reserved_shared_bytes;
        return share < Numbers::shared_bytes ? share : Numbers::shared_bytes;
    }

    // Of a block of K's: all that there is where K has large_blocks, which some of a target's machines then refuse.
    template <typename K> static constexpr int shared_bytes_for(int blocks_per_sm = 1) {
        if constexpr (requires { requires K::large_blocks; }) return Numbers::large_shared_bytes;
        else return shared_bytes_of(blocks_per_sm);
    }

    // Stages of a ring beside so many other bytes: as many as fit, but not more than `most`.
    static constexpr int stages(int most, int stage_bytes, int other_bytes, int blocks_per_sm = 1) {
        return stages_in(shared_bytes_of(blocks_per_sm), most, stage_bytes, other_bytes);
    }
    // The same in a large block.
    static constexpr int large_stages(int most, int stage_bytes, int other_bytes) {
        return stages_in(Numbers::large_shared_bytes, most, stage_bytes, other_bytes);
    }
    static constexpr int stages_in(int shared_bytes, int most, int stage_bytes, int other_bytes) {
        constexpr int semaphores = 16;  // of a stage
        const int fit = (shared_bytes - other_bytes) / (stage_bytes + semaphores);
        return fit < most ? fit : most;
    }

    // Warps of a multiprocessor, where on Hopper so many have just registers enough.
    static constexpr int warps_of(int on_hopper) {
        const int warps = Numbers::registers / 32;
        return warps / (warps / on_hopper + Numbers::spare_registers);
    }

    // Warps of a block with so many consumer warpgroups and so many warps of a producer's that have work. Where
    // registers move between warpgroups, the producer is a whole one.
    static constexpr int pipeline_warps(int consumers, int producing) {
        return 4 * consumers + (Numbers::moves_registers ? 4 : producing);
    }

    // Blocks of one consumer warpgroup that share a multiprocessor, where so many do if a producer's warps give up
    // their registers; one where they keep them, so that the consumer's have as many as a thread may.
    static constexpr int blocks_of_one_consumer(int where_registers_move) {
        return Numbers::moves_registers ? where_registers_move : 1;
    }

    // Registers of a thread where a block starts with a producer's warpgroup and so many others.
    static constexpr int registers_at_start(int consumers, int blocks_per_sm = 1) {
        const int each = Numbers::registers / (blocks_per_sm * (consumers + 1) * 128) / 8 * 8;
        return Numbers::moves_registers || each < Numbers::thread_registers ? each : Numbers::thread_registers;
    }
    // Registers of a consumer's thread, where one of the producer keeps `kept`.
    static constexpr int consumer_registers(int kept, int consumers = 2, int blocks_per_sm = 1) {
        const int start = registers_at_start(consumers, blocks_per_sm);
        if (!Numbers::moves_registers) return start;
        return ((consumers + 1) * start - kept) / consumers / 8 * 8;
    }
    // The reverse: what a thread of the producer keeps, where one of each consumer takes `each`. It needs no more than
    // 40, and at least 24. (The last warpgroup to ask for more registers than there are would wait for ever.)
    static constexpr int producer_registers(int consumers, int each, int blocks_per_sm = 1) {
        const int start = registers_at_start(consumers, blocks_per_sm);
        if (!Numbers::moves_registers) return start;
        const int left = (consumers + 1) * start - consumers * each;
        return left < 40 ? left : 40;
    }
    static constexpr int least_registers = 24;
};

}  // namespace kittens
