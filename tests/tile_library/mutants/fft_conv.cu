// The long convolution. SCHEDULE 0: the shortest transform, so that a tile holds several pairs; 1: the longest, by both
// consumers together; 2: the shortest, causal. More steps a block than stages; an odd batch; of 0 and 2 an odd number
// of tiles. Its constants are no roots of unity: any numbers show what is added to what.
#include "fft_conv/fft_conv.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::fft_conv;

constexpr int schedules = 3;
constexpr bool causal = SCHEDULE == 2;
constexpr int rows = SCHEDULE == 1 ? 128 : 16, N = rows * columns, B = causal ? 3 : 5, D = SCHEDULE == 1 ? 3 : 9;
using convolution = tk::fft_conv::kernel<rows, causal>;
constexpr int tables = rows / convolution::rows;  // of the even and of the odd frequencies

mutants::given<bf16> u(B * D * N), spectrum(D * 2 * N);
mutants::given<bf16> constants(tables * constant_rows * columns, [](double x) { return x / 4; });
mutants::result<bf16> y(B * D * N);

static void run() {
    using pipeline = lcsf<convolution>;
    const auto sequences = [](std::vector<bf16>& values) {
        constexpr int row = convolution::row_elements;
        return convolution::sequences{values.data(), B, D, N / row, row, row, N, D * N};
    };
    constexpr int groups = (B + convolution::tile_sequences - 1) / convolution::tile_sequences;
    launch<pipeline>({2, pipeline::shared_bytes}, nullptr,
                     {sequences(u),
                      sequences(y),
                      {spectrum.data(), D, 2, convolution::rows, tables * columns},
                      {constants.data(), 1, tables, constant_rows, columns},
                      groups,
                      convolution::together ? groups * D : (groups * D + 1) / 2});
}
