// Paged decode with grouped heads as it is timed: nothing is recorded.
#include "paged_launch.cuh"

std::string tk::decode_plan::stalled() { return kittens::stalled_counter(); }

void tk::paged_attention_decode::launch(const problem& p, const planned& s, void* stream) {
    launch_with<kittens::unrecorded>(p, s, stream, {});
}
