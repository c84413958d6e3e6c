// The project's Hedgehog kernels: what test_hedgehog_mutants.py changes, a line at a time. SCHEDULE 0 is the one of
// warpgroups with roles, 1 the one by warps. Three heads in two segments
// each, so that there are states to hand on and blocks with several tasks; a tail of rows.
#include <algorithm>
#include <cmath>
#include <vector>

#if SCHEDULE == 0
#include "hedgehog.cu"
#else
#include "forward.cu"
#endif
#include "mutants.h"

using namespace kittens;

namespace {

constexpr int H = 3, N = 430, D = 128, F = 64, segments = 2;
constexpr float alpha = 0.5f, beta = 0.75f;

struct data {
    std::vector<bf16> q, k, v, out, q_map, k_map;
    std::vector<float> alphas, betas, k_state, kv_state, scratch;
    std::vector<double> expected;

    data()
        : q(H * N * D),
          k(H * N * D),
          v(H * N * D),
          out(H * N * D),
          q_map(H * D * F),
          k_map(H * D * F),
          alphas(H, alpha),
          betas(H, beta),
          k_state(H * 2 * F),
          kv_state(H * 2 * F * D),
          scratch(H * 2 * F * (D + 1)),
          expected(H * N * D) {
        unsigned state = 1;
        for (auto* values : {&q, &k, &v, &q_map, &k_map})
            for (bf16& x : *values) {
                state = state * 1664525u + 1013904223u;
                x = from_float<bf16>(float(int(state >> 24) - 128) / (values->size() == q.size() ? 64.f : 512.f));
            }
        for (int h = 0; h < H; h++) fill_expected(h);
    }

    double dot(const bf16* x, const bf16* y) const {
        double sum = 0;
        for (int d = 0; d < D; d++) sum += double(to_float(x[d])) * to_float(y[d]);
        return sum;
    }

    std::vector<double> features(const std::vector<bf16>& rows, const std::vector<bf16>& map, int h) const {
        std::vector<double> phi(N * 2 * F);
        for (int n = 0; n < N; n++) {
            double total[2] = {0, 0}, *row = &phi[n * 2 * F];
            for (int f = 0; f < F; f++) {
                double x = 0;
                for (int d = 0; d < D; d++)
                    x += double(to_float(rows[(h * N + n) * D + d])) * to_float(map[(h * D + d) * F + f]);
                total[0] += row[f] = std::exp(x), total[1] += row[F + f] = std::exp(-x);
            }
            for (int f = 0; f < 2 * F; f++) row[f] = std::max(row[f] / total[f / F], 1e-6);
        }
        return phi;
    }

    void fill_expected(int h) {
        const std::vector<double> phi_q = features(q, q_map, h), phi_k = features(k, k_map, h);
        for (int n = 0; n < N; n++) {
            const int far = std::max(n / 64 - 1, 0) * 64;  // the first key of the window
            std::vector<double> weight(n + 1);
            double top = -INFINITY, total = 0, *to = &expected[(h * N + n) * D];
            for (int j = far; j <= n; j++)
                top = std::max(top, weight[j] = dot(&q[(h * N + n) * D], &k[(h * N + j) * D]));
            for (int j = 0; j <= n; j++) {
                if (j >= far) weight[j] = beta * std::exp((weight[j] - top) / std::sqrt(128.));
                else
                    for (int f = 0; f < 2 * F; f++) weight[j] += alpha * phi_q[n * 2 * F + f] * phi_k[j * 2 * F + f];
                total += weight[j];
                for (int d = 0; d < D; d++) to[d] += weight[j] * to_float(v[(h * N + j) * D + d]);
            }
            for (int d = 0; d < D; d++) to[d] /= total + 1e-6;
        }
    }

    double error() const { return relative_error(out, expected); }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    using tk::hedgehog::tensor;
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    for (bf16& x : d.out) x = bf16{0x7fc0};
    std::fill(d.scratch.begin(), d.scratch.end(), NAN);
    const auto heads = [](std::vector<bf16>& values) { return tensor{values.data(), H * N * D, N * D, D}; };
#if SCHEDULE == 0
    auto& forward = tk::hedgehog::forward;
#else
    auto& forward = tk::hedgehog::forward_by_warps;
#endif
    const auto run = [&] {
        forward({1, H, N}, heads(d.q), heads(d.k), heads(d.v), heads(d.out),
                {d.q_map.data(), d.k_map.data(), d.alphas.data(), d.betas.data()},
                {d.k_state.data(), d.kv_state.data()}, segments, d.scratch.data(), nullptr);
    };
    return judged(run, [&] { return d.error(); }, 4e-3, message, size);
}
