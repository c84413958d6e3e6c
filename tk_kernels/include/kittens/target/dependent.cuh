// Dependent launch: a kernel that begins while the kernel before it on its stream still runs. The earlier one says by
// `start_next_kernel` from when on; the later one says `starts_early`, and `wait_previous_kernel` before it uses what
// the earlier one wrote, or writes anything itself.
#pragma once

namespace kittens {

// Of a kernel, or of a pipeline's: a constant of that name; false unless given. The first kernel of an operator leaves
// it out, or is launched as the `first`, since nothing is known of what comes before.
template <typename Kernel> inline constexpr bool starts_early = [] {
    if constexpr (requires { Kernel::starts_early; }) return Kernel::starts_early;
    else return false;
}();

}  // namespace kittens
