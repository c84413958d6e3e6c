// The project's GEMM kernel in its pipeline template, at the smallest tiles that use everything: what
// test_gemm_mutants.py changes, a line at a time. Compiled with -DSCHEDULE=0 (two consumers share a tile), 1 (they
// alternate) or 2 (a cluster of two blocks along M, one consumer each) or 3 (sums are promoted every second step).
#include <cmath>
#include <cstdio>
#include <vector>

#include "gemm.cuh"

using namespace kittens;
using namespace tk::gemm;

namespace {

constexpr config shapes[] = {{128, 128, 2, 1, 1, false},
                             {64, 128, 2, 1, 1, true},
                             {64, 128, 2, 2, 1, false},
                             {128, 128, 2, 1, 1, false, false, 2}};
constexpr config shape = shapes[SCHEDULE];
// Several tiles a block, more steps than stages, tails in every dimension.
constexpr int M = 376, N = 248, K = 312;

struct problem {
    std::vector<bf16> a, b, out;
    std::vector<float> expected;

    problem() : a(M * K), b(K * N), out(M * N), expected(M * N) {
        unsigned state = 1;
        const auto next = [&] {
            state = state * 1664525u + 1013904223u;
            return from_float<bf16>(float(int(state >> 24) - 128) / 64.f);
        };
        for (bf16& x : a) x = next();
        for (bf16& x : b) x = next();
        for (int m = 0; m < M; m++)
            for (int k = 0; k < K; k++)
                for (int n = 0; n < N; n++) expected[m * N + n] += to_float(a[m * K + k]) * to_float(b[k * N + n]);
    }

    // ||out - expected|| / ||expected||
    double error() const {
        double wrong = 0, all = 0;
        for (int i = 0; i < M * N; i++) {
            const double difference = double(to_float(out[i])) - expected[i];
            wrong += difference * difference;
            all += double(expected[i]) * expected[i];
        }
        return std::sqrt(wrong / all);
    }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    using kernel = kernel<shape>;
    using pipeline = lcf<kernel>;
    using matrix = typename kernel::matrix;
    static problem p;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : p.out) x = bf16{0x7fc0};
    const int rows = shape.tile_m * shape.cluster_m, tiles_m = (M + rows - 1) / rows,
              tiles_n = (N + shape.tile_n - 1) / shape.tile_n;
    const typename kernel::globals g{matrix(p.a.data(), 1, 1, M, K),
                                     matrix(p.b.data(), 1, 1, K, N),
                                     {p.out.data(), 1, 1, M, N},
                                     {tiles_m, tiles_n, 8},
                                     (K + 63) / 64};
    try {
        launch<pipeline>({2 * kernel::cluster_blocks, pipeline::shared_bytes}, nullptr, g);
    } catch (const kittens::error& found) {
        std::snprintf(message, size, "%s", found.what());
        return 1;
    }
    const double error = p.error();
    if (error < 3e-3) return 0;
    std::snprintf(message, size, "relative error %g", error);
    return 2;
}
