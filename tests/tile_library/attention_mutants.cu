// The project's attention forward kernel in its pipeline template: what test_attention_mutants.py changes, a line at a
// time. Causal, grouped heads, fewer stages than tiles, several tasks a block, tails of rows and of keys. SCHEDULE 0:
// two consumers; 1: three, which see different keys, and an odd number of blocks of rows, in pairs.
#include <cmath>
#include <cstdio>
#include <vector>

#include "forward.cuh"

using namespace kittens;
using namespace tk::attention;

namespace {

constexpr bool three = SCHEDULE == 1;
constexpr config shape{64, 128, three ? 3 : 2, 3, false};
constexpr int H = 2, N = three ? 450 : 300,
              D = 64;         // query heads, which share one key head; rows of queries and of keys
constexpr float scale = 2.f;  // scores so far apart that the running maximum moves

struct data {
    std::vector<bf16> q, k, v, out;
    std::vector<float> lse;
    std::vector<double> expected;

    data() : q(H * N * D), k(N * D), v(N * D), out(H * N * D), lse(H * N), expected(H * N * D) {
        unsigned state = 1;
        for (auto* values : {&q, &k, &v})
            for (bf16& x : *values) {
                state = state * 1664525u + 1013904223u;
                x = from_float<bf16>(float(int(state >> 24) - 128) / 64.f);
            }
        for (int row = 0; row < H * N; row++) {
            double sum = 0;
            for (int key = 0; key <= row % N; key++) {
                double score = 0;
                for (int d = 0; d < D; d++) score += double(to_float(q[row * D + d])) * to_float(k[key * D + d]);
                const double weight = std::exp(scale * score);
                sum += weight;
                for (int d = 0; d < D; d++) expected[row * D + d] += weight * to_float(v[key * D + d]);
            }
            for (int d = 0; d < D; d++) expected[row * D + d] /= sum;
        }
    }

    // ||out - expected|| / ||expected||
    double error() const {
        double wrong = 0, all = 0;
        for (size_t i = 0; i < expected.size(); i++) {
            const double difference = to_float(out[i]) - expected[i];
            wrong += difference * difference;
            all += expected[i] * expected[i];
        }
        return std::sqrt(wrong / all);
    }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    using kernel = forward_kernel<shape>;
    using pipeline = lcf_stream<kernel>;
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : d.out) x = bf16{0x7fc0};
    const auto heads = [](std::vector<bf16>& values, int count) {
        return tensor{values.data(), count * N * D, N * D, D};
    };
    const row_schedule order(H, (N + kernel::rows - 1) / kernel::rows, true, false, false);
    const kernel::globals g{{heads(d.q, H), 1, H, N, D},
                            {heads(d.k, 1), 1, 1, N, D},
                            {heads(d.v, 1), 1, 1, N, D},
                            {heads(d.out, H), 1, H, N, D},
                            {d.lse.data(), 1, H, 1, N},
                            scale * 1.4426950408889634f,
                            {N, 0, true},
                            order,
                            divisor(H),
                            divisor(H)};
    try {
        launch<pipeline>({2, pipeline::shared_bytes}, nullptr, g);
    } catch (const kittens::error& found) {
        std::snprintf(message, size, "%s", found.what());
        return 1;
    }
    const double error = d.error();
    if (error < 4e-3) return 0;
    std::snprintf(message, size, "relative error %g", error);
    return 2;
}
