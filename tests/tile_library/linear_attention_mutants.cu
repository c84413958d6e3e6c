// The project's linear attention kernel in its pipeline template: what test_linear_attention_mutants.py changes, a line
// at a time. Two consumers, a decay of each step, an initial and a final state, fewer stages than chunks, several tasks
// a block, a tail of rows. SCHEDULE 0: whole sequences; 1: in three segments, by the three kernels in a row.
#include <cmath>
#include <vector>

#include "linear_attention.cuh"
#include "mutants.h"

using namespace kittens;
using namespace tk::linear_attention;

namespace {

constexpr config outputs{64, 2, 3, true}, sums{64, 2, 3, false};
constexpr int H = 4, N = 300, D = 64;  // heads, which share one q and k
const segmentation cut(divide_up(N, chunk), SCHEDULE == 1 ? 3 : 1);

struct data {
    std::vector<bf16> q, k, v, out;
    std::vector<float> decay, initial, final, starts, totals;
    std::vector<double> expected;

    data()
        : q(N * D),
          k(N * D),
          v(H * N * D),
          out(H * N * D),
          decay(H * N),
          initial(H * D * D),
          final(H * D * D),
          starts(H * cut.count * D * D),
          totals(H * cut.count * D),
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

    state_matrices states() { return {starts.data(), 1, H * (cut.count - 1), D, D}; }
    state_matrices kept() { return {totals.data(), 1, H * (cut.count - 1), 1, D}; }

    // The kernel over so many segments of each sequence.
    template <config C> void run_segments(int segments) {
        using kernel = chunk_kernel<C>;
        using pipeline = lcsf<kernel>;
        const int pairs = H / C.consumers;
        const typename kernel::globals g{{q.data(), 1, 1, N, D},
                                         {k.data(), 1, 1, N, D},
                                         {v.data(), 1, H, N, D},
                                         {out.data(), 1, H, N, D},
                                         {decays::per_step,
                                          N,
                                          nullptr,
                                          nullptr,
                                          false,
                                          false,
                                          {decay.data(), 1, H, 1, N},
                                          {nullptr, 1, 1, N, H},
                                          {nullptr, 1, 1, N, H}},
                                         0.f,
                                         false,
                                         {nullptr, 1, 1, H, 1},
                                         {{initial.data(), 1, H, D, D}, false},
                                         {{final.data(), 1, H, D, D}, false},
                                         states(),
                                         kept(),
                                         {divisor(1)},
                                         {divisor(pairs), divisor(segments), divisor(H), pairs * segments, cut}};
        launch<pipeline>({cut.count == 1 ? 1 : pairs * segments, pipeline::shared_bytes, false, 1, cut.count == 1},
                         nullptr, g);
    }
    void run() {
        if (cut.count > 1) {
            run_segments<sums>(cut.count - 1);
            carry_states<D>(
                H, nullptr,
                {{{initial.data(), 1, H, D, D}, false}, states(), kept(), {divisor(1)}, divisor(H), cut.count - 1});
        }
        run_segments<outputs>(cut.count);
    }

    double error() const { return relative_error(out, expected); }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : d.out) x = bf16{0x7fc0};
    return judged([&] { d.run(); }, [&] { return d.error(); }, 4e-3, message, size);
}
