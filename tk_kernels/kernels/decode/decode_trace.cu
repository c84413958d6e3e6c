// The decode kernels once more, which record when each instruction did what.
#include "mla_launch.cuh"
#include "paged_launch.cuh"
#include "decode_trace.h"

namespace tk {

using recorder = kittens::recorded<2>;  // roles: who loads, who multiplies
static thread_local recorder::where recording;

void decode_trace::record_into(std::uint64_t* log, int instructions) { recording = {log, instructions}; }

std::string decode_plan::stalled() { return kittens::stalled_counter(); }
void mla_decode::launch(const problem& p, const planned& s, void* stream) {
    launch_with<recorder>(p, s, stream, recording);
}
void paged_attention_decode::launch(const problem& p, const planned& s, void* stream) {
    launch_with<recorder>(p, s, stream, recording);
}

}  // namespace tk
