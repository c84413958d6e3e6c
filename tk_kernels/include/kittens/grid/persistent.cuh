// The host's side of a launch: how many blocks, and whether a problem's counts fit a kernel's indices.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>

namespace kittens {

template <typename A, typename B> kittens_host_device constexpr auto divide_up(A a, B b) { return (a + b - 1) / b; }

// Of so many steps the share of one block of the grid, as near to equal as can be: a kernel's only task.
struct block_share {
    int first, steps;
};
kittens_device block_share share_of_block(int steps) {
    const auto start = [=](int block) { return int(int64_t(steps) * block / block_count()); };
    const int first = start(block_index());
    return {first, start(block_index() + 1) - first};
}

// A persistent grid, whose blocks ask `get_task` for one task after another: as many blocks as run at the same time, or
// as there are tasks. `first`: see launch_shape.
template <typename Kernel>
void launch_tasks(int64_t tasks, void* stream, const typename Kernel::globals& globals, bool first = false) {
    const int64_t resident = int64_t(Kernel::blocks_per_sm) * multiprocessors();
    launch_shape shape{int(std::min(tasks, resident)), Kernel::shared_bytes};
    shape.first = first;
    launch<Kernel>(shape, stream, globals);
}

// A block for each task: the hardware hands them out.
template <typename Kernel> void launch_all(int64_t tasks, void* stream, const typename Kernel::globals& globals) {
    launch<Kernel>({int(tasks), Kernel::shared_bytes}, stream, globals);
}

// Throws std::invalid_argument where one of the counts times `room` exceeds what an int holds.
inline void require_counts(const char* kernel, int64_t room, std::initializer_list<int64_t> counts) {
    if (std::max(counts) > std::numeric_limits<int>::max() / room)
        throw std::invalid_argument(std::string(kernel) +
                                    ": the problem is too large for 32-bit indices; split the batch");
}

}  // namespace kittens
