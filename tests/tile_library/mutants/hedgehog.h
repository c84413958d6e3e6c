// The run of both of Hedgehog's kernels: `forward` is that of the source which a driver includes first.
#pragma once

using namespace kittens;

constexpr int H = 3, N = 830, D = 128, F = 64, segments = 3;
double small(double x) { return x / 8; }
mutants::given<bf16> q(H * N * D), k(H * N * D), v(H * N * D), q_map(H * D * F, small), k_map(H * D * F, small);
mutants::result<bf16> out(H * N * D);
mutants::result<float> k_state(H * 2 * F), kv_state(H * 2 * F * D);
mutants::scratch<float> between(H * segments * 2 * F * (D + 1));
mutants::given<float> alphas(H, std::fabs), betas(H, std::fabs);

static void run() {
    cpu::forced_options->multiprocessors = 2;
    const auto heads = [](std::vector<bf16>& values) {
        return tk::hedgehog::tensor{values.data(), H * N * D, N * D, D};
    };
    tk::hedgehog::forward({1, H, N}, heads(q), heads(k), heads(v), heads(out),
                          {q_map.data(), k_map.data(), alphas.data(), betas.data()}, {k_state.data(), kv_state.data()},
                          segments, between.data(), nullptr);
}
