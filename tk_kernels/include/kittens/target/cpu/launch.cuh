// cpu: shared memory of a block, and launch. Clusters are independent of one another; a few host threads run them.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "kittens/target/cpu/mma.cuh"
#include "kittens/target/launch_shape.cuh"

namespace kittens {

// Hands out the block's shared memory. Every warp makes the same calls in the same order and gets the same addresses.
struct shared_allocator {
    size_t calls = 0;

    template <typename T> kittens_device T* allocate(const char* name, int count = 1) {
        cpu::shared_memory& memory = cpu::this_warp().home->memory;
        return reinterpret_cast<T*>(memory.allocate(calls++, name, sizeof(T), size_t(count), alignof(T)));
    }
};

namespace cpu {

// What the kernels wrote since the last one that began after all before it had ended.
inline thread_local global_writes earlier_writes;

// What is known when all clusters of a grid have ended.
struct grid_end {
    global_writes written;
    global_reads read;
    bool waited = false;  // one of its warps called wait_previous_kernel

    void take(const cluster& machine) {
        written.take(machine.written());
        read.take(machine.read());
        waited = waited || machine.waited();
    }
};

// Runs each cluster to its end, on several threads; throws the error of the first one, by number, that failed.
inline grid_end run_in_turn(const cluster::shape& shape, void (*body)(const void*), const void* globals) {
    const options chosen = current_options();
    const int clusters = shape.blocks_in_grid / shape.cluster_blocks;
    int threads = chosen.threads > 0 ? chosen.threads : int(std::thread::hardware_concurrency());
    threads = std::max(1, std::min(threads, clusters));
    std::atomic<int> next = 0, failed = clusters;
    std::mutex guard;
    std::exception_ptr failure;
    grid_end end;
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
            end.take(machine);
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
    return end;
}

// Runs clusters that claim numbers from counters side by side, on this thread. At each claim the seed says which of
// them goes on: in some schedules one runs far ahead, in others they alternate.
inline grid_end run_claiming(const cluster::shape& shape, void (*body)(const void*), const void* globals) {
    const uint64_t seed = current_options().seed;
    random dice(~seed);
    static constexpr int stays[] = {0, 128, 250};
    const int stays_in_256 = stays[dice.below(3)];
    claims counters;
    grid_end end;
    std::vector<std::unique_ptr<cluster>> running;
    for (int number = 0; number < shape.blocks_in_grid / shape.cluster_blocks; number++) {
        running.push_back(std::make_unique<cluster>(shape, body, globals));
        running.back()->start(number, seed, counters);
    }
    for (size_t i = 0; !running.empty();) {
        if (i >= running.size() || !dice.chance(stays_in_256)) i = dice.below(running.size());
        if (!running[i]->advance()) continue;
        end.take(*running[i]);
        running.erase(running.begin() + int(i));
    }
    counters.check();
    return end;
}

// Runs all clusters together, on this thread: they may wait for one another.
inline grid_end run_resident(const cluster::shape& shape, void (*body)(const void*), const void* globals) {
    cluster::shape together = shape;
    together.clusters = shape.blocks_in_grid / shape.cluster_blocks;
    cluster machine(together, body, globals);
    machine.run_resident(current_options().seed);
    grid_end end;
    end.take(machine);
    return end;
}

// Runs body(globals) in every warp of the grid, and checks what no cluster can see alone.
inline void run_grid(cluster::shape shape, bool claims, bool early, void (*body)(const void*), const void* globals) {
    global_writes earlier = std::exchange(earlier_writes, {});
    if (early) {
        earlier.index();
        shape.earlier = &earlier;
    }
    grid_end end = (shape.resident ? run_resident : claims ? run_claiming : run_in_turn)(shape, body, globals);
    if (shape.blocks_in_grid > shape.cluster_blocks && !shape.resident) {
        end.written.check();
        end.read.check(end.written);
    }
    if (early && !end.waited)
        fail(
            "a kernel starts early and ends without wait_previous_kernel: the next one would not wait for those before "
            "it; call it in each block that uses what they wrote, or writes");
    if (early) earlier_writes = std::move(earlier);
    earlier_writes.take(end.written);
}

}  // namespace cpu

// Runs Kernel::run(globals) in every warp of `shape.blocks` blocks of Kernel::warps warps, in clusters; returns when
// all have ended, also where Kernel::starts_early: the next is checked as if it ran beside this one. Throws
// kittens::error where the program is wrong.
template <typename Kernel>
void launch(const launch_shape& shape, void* /*stream*/, const typename Kernel::globals& globals) {
    const int cluster_blocks = cluster_of<Kernel>(shape);
    if (shape.blocks < 1 || shape.blocks % cluster_blocks != 0)
        cpu::fail("launch: got ", shape.blocks, " blocks; a positive multiple of the cluster's ", cluster_blocks,
                  " is needed");
    if (shape.shared_bytes < 0 || shape.shared_bytes > limits::shared_bytes)
        cpu::fail("launch: got ", shape.shared_bytes, " bytes of shared memory; a block has at most ",
                  limits::shared_bytes);
    if (cpu::current_warp != nullptr) cpu::fail("launch: called inside a kernel");
    cpu::run_grid(
        {.blocks_in_grid = shape.blocks,
         .cluster_blocks = cluster_blocks,
         .warps = Kernel::warps,
         .shared_bytes = size_t(shape.shared_bytes),
         .resident = shape.resident},
        shape.claims, starts_early<Kernel> && !shape.first,
        [](const void* g) { Kernel::run(*static_cast<const typename Kernel::globals*>(g)); }, &globals);
}

// How many blocks a persistent grid has.
inline int multiprocessors() { return cpu::current_options().multiprocessors; }
// The shared memory that blocks of one multiprocessor share, and what one of them may have.
inline int multiprocessor_shared_bytes() { return limits::multiprocessor_shared_bytes; }
inline int block_shared_bytes() { return limits::shared_bytes; }

// How many blocks of a launch are there at once.
template <typename Kernel> int resident_blocks(const launch_shape& shape) {
    const int by_memory = limits::multiprocessor_shared_bytes / (shape.shared_bytes + limits::reserved_shared_bytes);
    const int blocks = multiprocessors() * std::min(Kernel::blocks_per_sm, by_memory);
    return blocks / cluster_of<Kernel>(shape) * cluster_of<Kernel>(shape);
}

}  // namespace kittens
