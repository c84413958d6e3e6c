// The project's linear attention kernel in its pipeline template: what test_linear_attention_mutants.py changes, a line
// at a time. Two consumers, a decay of each step, an initial and a final state, fewer stages than chunks, several tasks
// a block, a tail of rows.
#include <cmath>
#include <cstdio>
#include <vector>

#include "linear_attention.cuh"

using namespace kittens;
using namespace tk::linear_attention;

namespace {

constexpr config shape{64, 2, 3, true};
constexpr int H = 4, N = 300, D = 64;  // heads, which share one q and k

struct data {
    std::vector<bf16> q, k, v, out;
    std::vector<float> decay, initial, final;
    std::vector<double> expected;

    data()
        : q(N * D),
          k(N * D),
          v(H * N * D),
          out(H * N * D),
          decay(H * N),
          initial(H * D * D),
          final(H * D * D),
          expected(H * N * D) {
        unsigned state = 1;
        const auto draw = [&] {
            state = state * 1664525u + 1013904223u;
            return float(int(state >> 24) - 128) / 64.f;
        };
        for (auto* values : {&q, &k, &v})
            for (bf16& x : *values) x = from_float<bf16>(draw());
        for (float& x : decay) x = -std::fabs(draw()) * 0.05f;
        for (float& x : initial) x = draw();
        for (int head = 0; head < H; head++) {
            std::vector<double> sum(initial.begin() + head * D * D, initial.begin() + (head + 1) * D * D);
            for (int row = 0; row < N; row++) {
                const double kept = std::exp(double(decay[head * N + row]));
                for (int i = 0; i < D; i++)
                    for (int j = 0; j < D; j++) {
                        double& s = sum[i * D + j];
                        s = kept * s + double(to_float(k[row * D + i])) * to_float(v[(head * N + row) * D + j]);
                        expected[(head * N + row) * D + j] += to_float(q[row * D + i]) * s;
                    }
            }
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
    using kernel = chunk_kernel<shape>;
    using pipeline = lcsf<kernel>;
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : d.out) x = bf16{0x7fc0};
    const kernel::globals g{{d.q.data(), 1, 1, N, D},
                            {d.k.data(), 1, 1, N, D},
                            {d.v.data(), 1, H, N, D},
                            {d.out.data(), 1, H, N, D},
                            {decays::per_step,
                             N,
                             nullptr,
                             nullptr,
                             false,
                             false,
                             {d.decay.data(), 1, H, 1, N},
                             {nullptr, 1, 1, N, H},
                             {nullptr, 1, 1, N, H}},
                            0.f,
                            false,
                            {nullptr, 1, 1, H, 1},
                            {{d.initial.data(), 1, H, D, D}, false},
                            {{d.final.data(), 1, H, D, D}, false},
                            {nullptr, 1, 1, D, D},
                            {nullptr, 1, 1, 1, D},
                            {divisor(1)},
                            {divisor(H / shape.consumers), divisor(1), divisor(H), H / shape.consumers,
                             segmentation(divide_up(N, chunk), 1)}};
    try {
        launch<pipeline>({1, pipeline::shared_bytes}, nullptr, g);
    } catch (const kittens::error& found) {
        std::snprintf(message, size, "%s", found.what());
        return 1;
    }
    const double error = d.error();
    if (error < 4e-3) return 0;
    std::snprintf(message, size, "relative error %g", error);
    return 2;
}
