// A grid whose blocks are all there at once, so that they may wait for one another.
#pragma once

#include <stdexcept>
#include <string>

namespace kittens {

// Throws std::invalid_argument where the device does not hold a launch's blocks all at once: a block that has not begun
// could be waited for, for ever.
template <typename Kernel> void require_resident(const launch_shape& shape) {
    static_assert(!starts_early<Kernel>,
                  "launch_resident: a kernel that starts early shares the device with the one before it, so that not "
                  "all of its blocks need be there");
    const int most = resident_blocks<Kernel>(shape);
    if (shape.blocks > most)
        throw std::invalid_argument("launch_resident: got " + std::to_string(shape.blocks) +
                                    " blocks that wait for one another; this device holds " + std::to_string(most) +
                                    " of them at once; launch at most so many, and give each several tasks");
}

// Launches `shape.blocks` blocks that may `await` one another. Throws as require_resident does.
template <typename Kernel>
void launch_resident(launch_shape shape, void* stream, const typename Kernel::globals& globals) {
    require_resident<Kernel>(shape);
    shape.resident = true;
    launch<Kernel>(shape, stream, globals);
}

}  // namespace kittens
