// The kernels once more, which record when each instruction did what.
#include "trace.h"

#include "launch.cuh"

namespace tk::llama_decode {

using recorder = kittens::recorded<3>;  // roles: who loads, who multiplies, who stores
static thread_local recorder::where recording;

void record_into(std::uint64_t* log, int instructions) { recording = {log, instructions}; }

template <int Dim> static void launch_recorded(const problem& p, std::span<const std::int32_t> own, void* stream) {
    choose<Dim, recorder>(shape(own.data()), [&]<typename Kernel>(const Kernel&) {
        launch_of<Kernel, recorder>(p, own, stream, recording);
    });
}
void launch_64(const problem& p, std::span<const std::int32_t> own, void* stream) {
    launch_recorded<64>(p, own, stream);
}
void launch_128(const problem& p, std::span<const std::int32_t> own, void* stream) {
    launch_recorded<128>(p, own, stream);
}

}  // namespace tk::llama_decode
