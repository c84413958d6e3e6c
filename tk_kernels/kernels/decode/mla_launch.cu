// MLA decode as it is timed: nothing is recorded.
#include "mla_launch.cuh"

namespace tk::mla_decode {

std::string stalled() { return kittens::stalled_counter(); }
void launch(const problem& p, const planned& s, void* stream) { launch_with<unrecorded>(p, s, stream, {}); }

}  // namespace tk::mla_decode
