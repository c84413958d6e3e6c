// cpu: shared memory of a block, and launch. Clusters are independent of one another; a few host threads run them.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "kittens/target/cpu/mma.cuh"

namespace kittens {

// Hands out the block's shared memory. Every warp makes the same calls in the same order and gets the same addresses.
struct shared_allocator {
    size_t calls = 0;

    template <typename T> kittens_device T* allocate(const char* name, int count = 1) {
        cpu::shared_memory& memory = cpu::this_warp().home->memory;
        return reinterpret_cast<T*>(memory.allocate(calls++, name, sizeof(T), size_t(count), alignof(T)));
    }
};

// Blocks, threads a block (the kernel's own), blocks a cluster, bytes of dynamic shared memory.
struct launch_shape {
    int blocks;
    int shared_bytes;
};

namespace cpu {

// Runs body(globals) in every warp of the grid; throws the error of the first cluster, by number, that failed.
inline void run_grid(const cluster::shape& shape, void (*body)(const void*), const void* globals) {
    const options chosen = current_options();
    const int clusters = shape.blocks_in_grid / shape.cluster_blocks;
    int threads = chosen.threads > 0 ? chosen.threads : int(std::thread::hardware_concurrency());
    threads = std::max(1, std::min(threads, clusters));
    std::atomic<int> next = 0, failed = clusters;
    std::mutex guard;
    std::exception_ptr failure;
    global_writes written;
    const auto work = [&] {
        try {
            cluster machine(shape, body, globals);
            for (int number; (number = next++) < failed;) {
                try {
                    machine.run(number, chosen.seed);
                } catch (...) {
                    const std::lock_guard<std::mutex> lock(guard);
                    if (number < failed) failed = number, failure = std::current_exception();
                }
            }
            const std::lock_guard<std::mutex> lock(guard);
            written.take(machine.written());
        } catch (...) {
            const std::lock_guard<std::mutex> lock(guard);
            failed = -1, failure = std::current_exception();
        }
    };
    std::vector<std::thread> helpers;
    for (int i = 1; i < threads; i++) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
    if (clusters > 1) written.check();
}

}  // namespace cpu

// Runs Kernel::run(globals) in every warp of `shape.blocks` blocks of Kernel::warps warps, in clusters of
// Kernel::cluster_blocks; returns when all have ended. Throws kittens::error where the program is wrong.
template <typename Kernel>
void launch(const launch_shape& shape, void* /*stream*/, const typename Kernel::globals& globals) {
    if (shape.blocks < 1 || shape.blocks % Kernel::cluster_blocks != 0)
        cpu::fail("launch: got ", shape.blocks, " blocks; a positive multiple of the cluster's ",
                  Kernel::cluster_blocks, " is needed");
    if (shape.shared_bytes < 0 || shape.shared_bytes > limits::shared_bytes)
        cpu::fail("launch: got ", shape.shared_bytes, " bytes of shared memory; a block has at most ",
                  limits::shared_bytes);
    if (cpu::current_warp != nullptr) cpu::fail("launch: called inside a kernel");
    cpu::run_grid(
        {shape.blocks, Kernel::cluster_blocks, Kernel::warps, size_t(shape.shared_bytes)},
        [](const void* g) { Kernel::run(*static_cast<const typename Kernel::globals*>(g)); }, &globals);
}

// How many blocks a persistent grid has: few, so that each has several tasks in turn.
inline int multiprocessors() { return 4; }

}  // namespace kittens
