// The project's attention forward kernel in its pipeline template: what test_attention_mutants.py changes, a line at a
// time. Causal, grouped heads, fewer stages than tiles, several tasks a block, tails of rows and of keys. SCHEDULE 0:
// two consumers, queries in registers; 1: three, which see different keys, and queries in shared memory; 2: as 0, and a
// block has many tasks of the fewest steps, and a ring for more than may be told ahead; 3: the call itself, whose first
// rows see no key; 4: the call of the kernel by warps, which test_attention_warps_mutants.py changes.
#include <cmath>
#include <cstdio>
#include <vector>

#include "forward.cu"

using namespace kittens;
using namespace tk::attention;

namespace {

constexpr bool three = SCHEDULE == 1, many = SCHEDULE == 2, whole = SCHEDULE == 3;
// query heads, which share one key head; rows of queries and of keys
constexpr int H = many ? 24 : 2, N = three ? 400 : many ? 40 : 300, M = three ? 450 : whole ? 130 : N, D = 64;
constexpr float scale = 2.f;  // scores so far apart that the running maximum moves

struct data {
    std::vector<bf16> q, k, v, out;
    std::vector<float> lse;
    std::vector<double> expected, expected_lse;

    data() : q(H * N * D), k(M * D), v(M * D), out(H * N * D), lse(H * N), expected(H * N * D), expected_lse(H * N) {
        unsigned state = 1;
        for (auto* values : {&q, &k, &v})
            for (bf16& x : *values) {
                state = state * 1664525u + 1013904223u;
                x = from_float<bf16>(float(int(state >> 24) - 128) / 64.f);
            }
        for (int row = 0; row < H * N; row++) {
            double sum = 0;
            for (int key = 0; key <= row % N + M - N; key++) {
                double score = 0;
                for (int d = 0; d < D; d++) score += double(to_float(q[row * D + d])) * to_float(k[key * D + d]);
                const double weight = std::exp(scale * score);
                sum += weight;
                for (int d = 0; d < D; d++) expected[row * D + d] += weight * to_float(v[key * D + d]);
            }
            for (int d = 0; d < D; d++) expected[row * D + d] /= sum > 0 ? sum : 1;
            expected_lse[row] = std::log(sum);
        }
    }

    // ||out - expected|| / ||expected||; 1 where a logarithm is wrong.
    double error() const {
        double wrong = 0, all = 0;
        for (size_t i = 0; i < lse.size(); i++)
            if (!(lse[i] == expected_lse[i] || std::abs(lse[i] - expected_lse[i]) < 1e-3)) return 1;
        for (size_t i = 0; i < expected.size(); i++) {
            const double difference = to_float(out[i]) - expected[i];
            wrong += difference * difference;
            all += expected[i] * expected[i];
        }
        return std::sqrt(wrong / all);
    }
};

tensor heads(std::vector<bf16>& values, int count, int rows) { return {values.data(), count * rows * D, rows * D, D}; }

#if SCHEDULE == 4
void run(data& d) {
    forward_by_warps({1, H, 1, N, M, D, true, scale}, heads(d.q, H, N), heads(d.k, 1, M), heads(d.v, 1, M),
                     heads(d.out, H, N), d.lse.data(), nullptr);
}
#else
constexpr config shape{64, 128, three ? 3 : 2, many ? 8 : 3, !three};
static int counter;

void run_pipeline(data& d) {
    using kernel = forward_kernel<shape>;
    using pipeline = lcf_flow<kernel>;
    constexpr int row_blocks = (N + kernel::rows - 1) / kernel::rows;
    const kernel::globals g{{heads(d.q, H, N), 1, H, N, D},
                            {heads(d.k, 1, M), 1, 1, M, D},
                            {heads(d.v, 1, M), 1, 1, M, D},
                            {heads(d.out, H, N), 1, H, N, D},
                            {d.lse.data(), 1, H, 1, N},
                            scale * 1.4426950408889634f,
                            {M, M - N, true},
                            {H, row_blocks, H},
                            divisor(H),
                            divisor(H),
                            {H * row_blocks, &counter}};
    launch<clear_queue>({1, 0}, nullptr, {g.queue});
    launch<pipeline>({2, pipeline::shared_bytes, true}, nullptr, g);
}

void call_forward(data& d) {
    forward({1, H, 1, N, M, D, true, scale}, heads(d.q, H, N), heads(d.k, 1, M), heads(d.v, 1, M), heads(d.out, H, N),
            d.lse.data(), {}, &counter, nullptr);
}

void run(data& d) {
    if (whole) call_forward(d);
    else run_pipeline(d);
}
#endif

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : d.out) x = bf16{0x7fc0};
    for (float& x : d.lse) x = NAN;
    try {
        run(d);
    } catch (const kittens::error& found) {
        std::snprintf(message, size, "%s", found.what());
        return 1;
    }
    const double error = d.error();
    if (error < 4e-3) return 0;
    std::snprintf(message, size, "relative error %g", error);
    return 2;
}
