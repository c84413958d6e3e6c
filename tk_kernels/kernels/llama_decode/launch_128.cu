// Kernels for heads of 128 columns.
#include "launch.cuh"

namespace tk::llama_decode {

void launch_128(const problem& p, std::span<const std::int32_t> own, void* stream) {
    choose<128>(shape(own.data()), [&]<typename Kernel>(const Kernel&) { launch_of<Kernel>(p, own, stream); });
}

}  // namespace tk::llama_decode
