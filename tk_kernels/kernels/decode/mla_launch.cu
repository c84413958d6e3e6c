// MLA decode as it is timed: nothing is recorded.
#include "mla_launch.cuh"

std::string tk::decode_plan::stalled() { return kittens::stalled_counter(); }

void tk::mla_decode::launch(const problem& p, const planned& s, void* stream) {
    launch_with<kittens::unrecorded>(p, s, stream, {});
}
