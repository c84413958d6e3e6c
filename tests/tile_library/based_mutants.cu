// The project's Based kernels: what test_based_mutants.py changes, a line at a time. Three heads in four segments each,
// so that there are states to hand on and a block with several tasks; fewer stages than steps; a tail of rows.
#include <cmath>
#include <vector>

#include "based.cu"
#include "mutants.h"

using namespace kittens;

namespace {

constexpr int H = 3, N = 700, F = 16, D = 64, parts = 4;

struct data {
    std::vector<bf16> q, k, v, out;
    std::vector<float> state, pairs, scratch;
    std::vector<double> expected;

    data()
        : q(H * N * F),
          k(H * N * F),
          v(H * N * D),
          out(H * N * D),
          state(H * tk::based::state_elements),
          pairs(H * tk::based::pair_elements),
          scratch(H * (parts - 1) * (tk::based::state_elements + tk::based::pair_elements)),
          expected(H * N * D) {
        unsigned random = 1;
        for (auto* values : {&q, &k, &v})
            for (bf16& x : *values) {
                random = random * 1664525u + 1013904223u;
                x = from_float<bf16>(float(int(random >> 24) - 128) / 64.f);
            }
        for (int row = 0; row < H * N; row++) {
            double total = 1e-6, *to = &expected[row * D];
            for (int key = row / N * N; key <= row; key++) {
                double s = 0;
                for (int f = 0; f < F; f++) s += 0.25 * to_float(q[row * F + f]) * to_float(k[key * F + f]);
                const double weight = 1 + s + s * s / 2;
                total += weight;
                for (int d = 0; d < D; d++) to[d] += weight * to_float(v[key * D + d]);
            }
            for (int d = 0; d < D; d++) to[d] /= total;
        }
    }

    double error() const { return relative_error(out, expected); }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    using namespace tk::based;
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : d.out) x = bf16{0x7fc0};
    for (float& x : d.scratch) x = NAN;
    const auto heads = [](std::vector<bf16>& values, int dim) {
        return tensor{values.data(), H * N * dim, N * dim, dim};
    };
    const auto run = [&] {
        tk::based::launch({1, H, N, true}, heads(d.q, F), heads(d.k, F), heads(d.v, D), heads(d.out, D), d.state.data(),
                          d.pairs.data(), d.scratch.data(), {parts}, nullptr);
    };
    return judged(run, [&] { return d.error(); }, 4e-3, message, size);
}
