// The host side of the long convolution: which kernel a transform gets, and its launch.
#include <stdexcept>
#include <string>

#include "fft_conv.cuh"

namespace tk::fft_conv {
namespace {

template <int Rows> void start(const problem& p, void* stream) {
    using kernel = kernel<Rows>;
    constexpr int row = kernel::row_elements;
    const auto data = [](const void* pointer) { return static_cast<bf16*>(const_cast<void*>(pointer)); };
    const auto sequences = [&](const tensor& t) {
        return typename kernel::sequences(data(t.data), p.batch, p.channels, p.length / row, row, row, t.channel_stride,
                                          t.batch_stride);
    };
    const int64_t groups = divide_up(p.batch, kernel::tile_sequences);
    const int64_t steps = divide_up(groups * p.channels, kernel::consumers);
    require_counts("fft_conv", kernel::consumers, {steps});
    launch_tasks<lcsf<kernel>>(steps, stream,
                               {sequences(p.u),
                                sequences(p.y),
                                {data(p.spectrum), p.channels, 2, Rows, columns},
                                {data(p.constants), 1, 1, constant_rows, columns},
                                int(groups),
                                int(steps)});
}

}  // namespace

void launch(const problem& p, void* stream) {
    require_counts("fft_conv", 2, {p.batch, p.channels});
    if (p.rows == 16) start<16>(p, stream);
    else if (p.rows == 32) start<32>(p, stream);
    else if (p.rows == 64) start<64>(p, stream);
    else
        throw std::invalid_argument("fft_conv: no kernel is built for a transform of " +
                                    std::to_string(p.rows * columns) + " points; there are 1024, 2048 and 4096");
}

}  // namespace tk::fft_conv
