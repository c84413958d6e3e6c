// The project's long convolution in its pipeline template: what test_fft_conv_mutants.py changes, a line at a time. The
// shortest transform, so that a tile holds several pairs; more steps a block than stages; an odd batch.
#include <cmath>
#include <cstdio>
#include <vector>

#include "fft_conv.cuh"

using namespace kittens;
using namespace tk::fft_conv;

namespace {

constexpr int rows = 16, N = rows * columns, B = 5, D = 5, taps = 5;
constexpr double turn = 6.283185307179586;

struct data {
    std::vector<bf16> u, y, spectrum, constants;
    std::vector<double> expected;

    data() : u(B * D * N), y(B * D * N), spectrum(D * 2 * N), constants(3 * 2 * 64 * 64), expected(B * D * N) {
        unsigned state = 1;
        const auto draw = [&] {
            state = state * 1664525u + 1013904223u;
            return float(int(state >> 24) - 128) / 64.f;
        };
        for (bf16& x : u) x = from_float<bf16>(draw());
        for (int d = 0; d < D; d++) {
            float k[taps];
            for (float& x : k) x = draw();
            const int lags[taps] = {0, 1, 17, 64, N - 1};
            for (int b = 0; b < B; b++)
                for (int i = 0; i < N; i++)
                    for (int t = 0; t < taps; t++)
                        expected[(b * D + d) * N + i] += k[t] * to_float(u[(b * D + d) * N + (i + N - lags[t]) % N]);
            for (int f = 0; f < N; f++) {
                double real = 0, imag = 0;
                for (int t = 0; t < taps; t++) {
                    const double angle = -turn * (double(f) * lags[t] / N);
                    real += k[t] * std::cos(angle), imag += k[t] * std::sin(angle);
                }
                const int at = f % rows * columns + f / rows;  // frequency c + rows d is at (c, d)
                spectrum[(d * 2 + 0) * N + at] = from_float<bf16>(float(real / N));
                spectrum[(d * 2 + 1) * N + at] = from_float<bf16>(float(imag / N));
            }
        }
        for (int r = 0; r < 64; r++)
            for (int c = 0; c < 64; c++) {
                const double turns[3] = {r * c / 64., r % rows * (c % rows) / double(rows), r % rows * c / double(N)};
                for (int which = 0; which < 3; which++) {
                    const double inside = which != 1 || r / rows == c / rows ? 1 : 0;
                    bf16* at = &constants[which * 2 * 4096 + r * 64 + c];
                    at[0] = from_float<bf16>(float(inside * std::cos(turn * turns[which])));
                    at[4096] = from_float<bf16>(float(inside * std::sin(turn * turns[which])));
                }
            }
    }

    // ||y - expected|| / ||expected||
    double error() const {
        double wrong = 0, all = 0;
        for (size_t i = 0; i < expected.size(); i++) {
            const double difference = to_float(y[i]) - expected[i];
            wrong += difference * difference;
            all += expected[i] * expected[i];
        }
        return std::sqrt(wrong / all);
    }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    using kernel = tk::fft_conv::kernel<rows>;
    using pipeline = lcsf<kernel>;
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : d.y) x = bf16{0x7fc0};
    const auto sequences = [](std::vector<bf16>& values) {
        return kernel::sequences{values.data(), B, D, rows, columns, columns, N, D * N};
    };
    const kernel::globals g{sequences(d.u),
                            sequences(d.y),
                            {d.spectrum.data(), D, 2, rows, columns},
                            {d.constants.data(), 3, 2, 64, 64},
                            1,
                            D};
    try {
        launch<pipeline>({2, pipeline::shared_bytes}, nullptr, g);
    } catch (const kittens::error& found) {
        std::snprintf(message, size, "%s", found.what());
        return 1;
    }
    const double error = d.error();
    if (error < 6e-3) return 0;
    std::snprintf(message, size, "relative error %g", error);
    return 2;
}
