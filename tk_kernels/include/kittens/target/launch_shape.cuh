// How a kernel is launched.
#pragma once

namespace kittens {

// Blocks, threads a block (the kernel's own), bytes of dynamic shared memory; blocks a cluster where the kernel leaves
// them to the launch (its cluster_blocks is any_cluster).
struct launch_shape {
    int blocks;
    int shared_bytes;
    bool claims = false;  // its blocks claim from a counter: the cpu target lets them run side by side
    int cluster_blocks = 1;
    bool first = false;     // of its operator, this time: it does not start early, whatever the kernel says
    bool resident = false;  // all of its blocks are there at once: launch_resident says so
};
constexpr int any_cluster = 0;
template <typename Kernel> constexpr int cluster_of(const launch_shape& shape) {
    return Kernel::cluster_blocks == any_cluster ? shape.cluster_blocks : Kernel::cluster_blocks;
}

// Dependent launch: a kernel that begins while the kernel before it on its stream still runs. The earlier one says by
// `start_next_kernel` from when on; the later one says `starts_early`, and `wait_previous_kernel` before it uses what
// the earlier one wrote, or writes anything itself.
// Of a kernel, or of a pipeline's: a constant of that name; false unless given. The first kernel of an operator leaves
// it out, or is launched as the `first`, since nothing is known of what comes before.
template <typename Kernel> inline constexpr bool starts_early = [] {
    if constexpr (requires { Kernel::starts_early; }) return Kernel::starts_early;
    else return false;
}();

}  // namespace kittens
