// The project's long convolution in its pipeline template: what test_fft_conv_mutants.py changes, a line at a time.
// SCHEDULE 0: the shortest transform, so that a tile holds several pairs; 1: the longest, by both consumers together;
// 2: the shortest, causal. More steps a block than stages; an odd batch; of 0 and 2 an odd number of tiles.
#include <cmath>
#include <vector>

#include "fft_conv.cuh"
#include "mutants.h"

using namespace kittens;
using namespace tk::fft_conv;

namespace {

constexpr bool causal = SCHEDULE == 2;
constexpr int rows = SCHEDULE == 1 ? 128 : 16, N = rows * columns, B = causal ? 3 : 5;
constexpr int D = SCHEDULE == 1 ? 3 : 9, taps = 5;
using convolution = tk::fft_conv::kernel<rows, causal>;
constexpr int tables = rows / convolution::rows;  // of the even and of the odd frequencies
constexpr double turn = 6.283185307179586;

struct data {
    std::vector<bf16> u, y, spectrum, constants;
    std::vector<double> expected;

    data()
        : u(B * D * N),
          y(B * D * N),
          spectrum(D * 2 * N),
          constants(tables * constant_rows * columns),
          expected(B * D * N) {
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
                    for (int t = 0; t < taps && !(causal && lags[t] > i); t++)
                        expected[(b * D + d) * N + i] += k[t] * to_float(u[(b * D + d) * N + (i + N - lags[t]) % N]);
            for (int f = 0; f < N; f++) {
                double real = 0, imag = 0;
                for (int t = 0; t < taps; t++) {
                    const double angle = -turn * ((f + (causal ? 0.25 : 0)) * lags[t] / N);
                    real += k[t] * std::cos(angle), imag += k[t] * std::sin(angle);
                }
                const int d_of = f / rows;  // frequency c + rows d is at (c, d), odd d after the even ones
                const int at = f % rows * columns + d_of / 2 + d_of % 2 * half_rows;
                spectrum[(d * 2 + 0) * N + at] = from_float<bf16>(float(real / N));
                spectrum[(d * 2 + 1) * N + at] = from_float<bf16>(float(imag / N));
            }
        }
        for (int table = 0; table < tables; table++) make_constants(table, causal ? 0.25 : 0.5 * table);
    }

    // Of the transform over 64 convolution::rows points, at its frequencies plus shift.
    void make_constants(int table, double shift) {
        constexpr int rows = convolution::rows, size = std::min(rows, half_rows);
        const auto put = [&](int row, int column, double x) {
            constants[(table * constant_rows + row) * columns + column] = from_float<bf16>(float(x));
        };
        // exp(-2 pi i turns), real and imaginary parts side by side in one block, turned by a right angle in another.
        const auto put_both = [&](int row, int second, int column, int other, double turns, double factor) {
            const double real = factor * std::cos(turn * turns), imag = -factor * std::sin(turn * turns);
            put(row, column, real), put(row, other, imag);
            put(second, column, -imag), put(second, other, real);
        };
        for (int r = 0; r < half_rows; r++)
            for (int c = 0; c < half_rows; c++) {
                const int at = r / 8 * 16 + r % 8;
                const double inside = r / size == c / size ? 1 : 0;
                const double angle = turn * ((r % size + shift) * (c % size + shift)) / size;
                put(at, c, inside * std::cos(angle)), put(at + 8, c, -inside * std::sin(angle));
                put(at, c + half_rows, inside * std::sin(angle)), put(at + 8, c + half_rows, inside * std::cos(angle));
                put_both(32 * even_block + r, 32 * even_block + 32 + r, c, c + half_rows, r * c / 32., 1);
                put_both(32 * odd_block + r, 32 * odd_block + 32 + r, c, c + half_rows, r * (2 * c + 1) / 64., 1);
                put_both(32 * back_odd_block + r, 32 * back_odd_block + 32 + r, c, c + half_rows, c * (2 * r + 1) / 64.,
                         1);
            }
        for (int r = 0; r < 64; r++)
            for (int c = 0; c < 64; c++) {
                const double angle = turn * ((r % rows + shift) * c / (64 * rows) - (r % size + shift) * shift / size);
                put(64 * twiddle_tile + r, c, std::cos(angle)), put(64 * twiddle_tile + 64 + r, c, -std::sin(angle));
            }
        for (int at = 0; at < 64; at++) {
            const int c = at / 16 * 8 + at % 8;
            const double angle = turn * (c + shift) / 64, parts[] = {std::cos(angle), -std::sin(angle)};
            for (int part = 0; part < 2; part++) {
                const double rounded = to_float(from_float<bf16>(float(parts[part])));
                put(turn_row + 2 * part, at, rounded), put(turn_row + 2 * part + 1, at, parts[part] - rounded);
            }
        }
    }

    // ||y - expected|| / ||expected||
    double error() const { return relative_error(y, expected); }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    using pipeline = lcsf<convolution>;
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : d.y) x = bf16{0x7fc0};
    const auto sequences = [](std::vector<bf16>& values) {
        constexpr int row = convolution::row_elements;
        return convolution::sequences{values.data(), B, D, N / row, row, row, N, D * N};
    };
    constexpr int groups = (B + convolution::tile_sequences - 1) / convolution::tile_sequences;
    const convolution::globals g{sequences(d.u),
                                 sequences(d.y),
                                 {d.spectrum.data(), D, 2, convolution::rows, tables * columns},
                                 {d.constants.data(), 1, tables, constant_rows, columns},
                                 groups,
                                 convolution::together ? groups * D : (groups * D + 1) / 2};
    const auto run = [&] { launch<pipeline>({2, pipeline::shared_bytes}, nullptr, g); };
    return judged(run, [&] { return d.error(); }, 6e-3, message, size);
}
