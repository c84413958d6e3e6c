// What the timed kernels record of their instructions: nothing. What takes its place is in ../decode_trace/.
#pragma once

#include "kittens.cuh"

namespace tk::decode_plan {

using namespace kittens;

// No code.
struct unrecorded {
    struct where {};
    template <typename Records> kittens_device unrecorded(const where&, int, const Records&) {}
    kittens_device void start() {}
    kittens_device void waited() {}
    kittens_device void end() {}
};

}  // namespace tk::decode_plan
