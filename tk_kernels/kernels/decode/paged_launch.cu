// Paged decode with grouped heads as it is timed: nothing is recorded.
#include "paged_launch.cuh"

namespace tk::paged_attention_decode {

std::string stalled() { return kittens::stalled_counter(); }
void launch(const problem& p, const planned& s, void* stream) { launch_with<unrecorded>(p, s, stream, {}); }

}  // namespace tk::paged_attention_decode
