// The host side of the long convolution: which kernel a transform gets, and its launch.
#include <stdexcept>
#include <string>

#include "fft_conv.cuh"

namespace tk::fft_conv {
namespace {

template <int Rows>
void start(const problem& p, const tensor& u, const tensor& y, const void* spectrum, const void* constants,
           void* stream) {
    using kernel = kernel<Rows>;
    using pipeline = lcsf<kernel>;
    const auto data = [](const void* pointer) { return static_cast<bf16*>(const_cast<void*>(pointer)); };
    const auto sequences = [&](const tensor& t) {
        return typename kernel::sequences{data(t.data),         p.batch,
                                          p.channels,           p.length / kernel::row_elements,
                                          kernel::row_elements, kernel::row_elements,
                                          t.channel_stride,     t.batch_stride};
    };
    const int64_t groups = divide_up(p.batch, kernel::tile_sequences);
    const int64_t steps = divide_up(groups * p.channels, kernel::consumers);
    require_counts("fft_conv", kernel::consumers, {steps});
    const typename kernel::globals globals{sequences(u),
                                           sequences(y),
                                           {data(spectrum), p.channels, 2, Rows, columns},
                                           {data(constants), 1, 1, constant_rows, columns},
                                           int(groups),
                                           int(steps)};
    launch_tasks<pipeline>(steps, stream, globals);
}

}  // namespace

void launch(const problem& p, const tensor& u, const tensor& y, const void* spectrum, const void* constants,
            void* stream) {
    require_counts("fft_conv", 2, {p.batch, p.channels});
    switch (p.rows) {
        case 16: return start<16>(p, u, y, spectrum, constants, stream);
        case 32: return start<32>(p, u, y, spectrum, constants, stream);
        case 64: return start<64>(p, u, y, spectrum, constants, stream);
        default:
            throw std::invalid_argument("fft_conv: no kernel is built for a transform of " +
                                        std::to_string(p.rows * columns) + " points; there are 1024, 2048 and 4096");
    }
}

}  // namespace tk::fft_conv
