// The host side of the long convolution: which kernel a transform gets, and its launch.
#include <algorithm>
#include <limits>
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
        return typename kernel::sequences{
            data(t.data),         int(p.batch),         int(p.channels),  int(p.length / kernel::row_elements),
            kernel::row_elements, kernel::row_elements, t.channel_stride, t.batch_stride};
    };
    const int64_t groups = (p.batch + kernel::tile_sequences - 1) / kernel::tile_sequences;
    const int64_t steps = (groups * p.channels + kernel::consumers - 1) / kernel::consumers;
    if (steps > std::numeric_limits<int>::max() / kernel::consumers)
        throw std::invalid_argument("fft_conv: the problem is too large for 32-bit indices; split the batch");
    const typename kernel::globals globals{sequences(u),
                                           sequences(y),
                                           {data(spectrum), int(p.channels), 2, Rows, columns},
                                           {data(constants), 1, 1, constant_rows, columns},
                                           int(groups),
                                           int(steps)};
    const int blocks = int(std::min<int64_t>(steps, multiprocessors()));
    kittens::launch<pipeline>({blocks, pipeline::shared_bytes}, stream, globals);
}

}  // namespace

void launch(const problem& p, const tensor& u, const tensor& y, const void* spectrum, const void* constants,
            void* stream) {
    if (p.batch > std::numeric_limits<int>::max() / 2 || p.channels > std::numeric_limits<int>::max() / 2)
        throw std::invalid_argument("fft_conv: the problem is too large for 32-bit indices; split the batch");
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
