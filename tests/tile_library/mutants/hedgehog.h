// Operands of both of Hedgehog's forward kernels.
#pragma once

using namespace kittens;

constexpr int H = 3, N = 430, D = 128, F = 64, segments = 2;
double small(double x) { return x / 8; }
mutants::given<bf16> q(H * N * D), k(H * N * D), v(H * N * D), q_map(H * D * F, small), k_map(H * D * F, small);
mutants::result<bf16> out(H * N * D);
mutants::result<float> k_state(H * 2 * F), kv_state(H * 2 * F * D);
mutants::scratch<float> between(H * 2 * F * (D + 1));
std::vector<float> alphas(H, 0.5f), betas(H, 0.75f);

template <typename Forward> void run_hedgehog(Forward& forward) {
    const auto heads = [](std::vector<bf16>& values) {
        return tk::hedgehog::tensor{values.data(), H * N * D, N * D, D};
    };
    forward({1, H, N}, heads(q), heads(k), heads(v), heads(out),
            {q_map.data(), k_map.data(), alphas.data(), betas.data()}, {k_state.data(), kv_state.data()}, segments,
            between.data(), nullptr);
}
