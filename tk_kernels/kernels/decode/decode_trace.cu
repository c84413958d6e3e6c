// The decode kernels once more, which record when each instruction did what.
#include "mla_launch.cuh"
#include "paged_launch.cuh"
#include "decode_trace.h"
#include "recorded.cuh"

namespace tk {

static thread_local decode_plan::recorded::where recording;

void decode_trace::record_into(std::uint64_t* log, int instructions) { recording = {log, instructions}; }

std::string mla_decode::stalled() { return kittens::stalled_counter(); }
void mla_decode::launch(const problem& p, const planned& s, void* stream) {
    launch_with<plan::recorded>(p, s, stream, recording);
}

std::string paged_attention_decode::stalled() { return kittens::stalled_counter(); }
void paged_attention_decode::launch(const problem& p, const planned& s, void* stream) {
    launch_with<plan::recorded>(p, s, stream, recording);
}

}  // namespace tk
