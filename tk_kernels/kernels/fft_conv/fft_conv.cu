// The host side of the long convolution: which kernel a transform gets, and its launch.
#include <stdexcept>
#include <string>

#include "fft_conv.cuh"

namespace tk::fft_conv {
namespace {

template <int Rows, bool Causal, bool Large> void start_on(const problem& p, void* stream) {
    using kernel = fft_conv::kernel<Rows, Causal, Large>;
    constexpr int row = kernel::row_elements;
    const auto data = [](const void* pointer) { return static_cast<bf16*>(const_cast<void*>(pointer)); };
    const auto sequences = [&](const tensor& t) {
        return typename kernel::sequences(data(t.data), p.batch, p.channels, p.length / row, row, row, t.channel_stride,
                                          t.batch_stride);
    };
    const int64_t groups = divide_up(p.batch, kernel::tile_sequences);
    const int64_t steps = divide_up(groups * p.channels, kernel::together ? 1 : kernel::consumers);
    require_counts("fft_conv", kernel::consumers, {steps});
    launch_tasks<lcsf<kernel>>(steps, stream,
                               {sequences(p.u),
                                sequences(p.y),
                                {data(p.spectrum), p.channels, 2, kernel::rows, Rows / kernel::rows * columns},
                                {data(p.constants), 1, Rows / kernel::rows, constant_rows, columns},
                                int(groups),
                                int(steps)});
}

// With two stages where the device has shared memory for them.
template <int Rows, bool Causal> void start(const problem& p, void* stream) {
    if constexpr (limits::large_shared_bytes > limits::shared_bytes)
        if (lcsf<kernel<Rows, Causal, true>>::shared_bytes > block_shared_bytes())
            return start_on<Rows, Causal, false>(p, stream);
    start_on<Rows, Causal, true>(p, stream);
}

// Of 8192 points: two consumers share one, which keep the sums of 240 registers a thread.
void start_by_both(const problem& p, void* stream) {
    if constexpr (limits::moves_registers) start<128, false>(p, stream);
    else
        throw std::invalid_argument(
            "fft_conv: a transform of 8192 points needs a Hopper GPU, whose warpgroups pass registers on; there are "
            "1024, 2048 and 4096");
}

}  // namespace

void launch(const problem& p, void* stream) {
    require_counts("fft_conv", 2, {p.batch, p.channels});
    if (p.rows == 16) p.causal ? start<16, true>(p, stream) : start<16, false>(p, stream);
    else if (p.rows == 32) p.causal ? start<32, true>(p, stream) : start<32, false>(p, stream);
    else if (p.rows == 64) p.causal ? start<64, true>(p, stream) : start<64, false>(p, stream);
    else if (p.rows == 128 && !p.causal) start_by_both(p, stream);
    else
        throw std::invalid_argument("fft_conv: no kernel is built for a transform of " +
                                    std::to_string(p.rows * columns) +
                                    " points; there are 1024, 2048, 4096 and, not causal, 8192");
}

}  // namespace tk::fft_conv
