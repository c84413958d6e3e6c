// The kernels of the bf16 GEMM with an epilogue, and its launch (choice.cuh).
#include "choice.cuh"
#include "gemm_epilogue.cuh"

namespace tk::gemm_epilogue {
namespace {

using gemm::built_kernels, gemm::config;
using enum gemm::schedule;

template <typename Operation>
constexpr auto& kernels =
    built_kernels<Operation, config{.tile{128, 256}, .stages = 4},
                  config{.tile{128, 128}, .stages = 6, .consumers = gemm::in_turn}, config{.tile{64, 128}, .stages = 8},
                  config{.tile{128, 128}, .stages = 3, .consumers = by_warps}>;
template <typename Operation>
    requires Operation::fits_192
constexpr auto& kernels<Operation> =
    built_kernels<Operation, config{.tile{128, 256}, .stages = 4},
                  config{.tile{128, 192}, .stages = 4, .consumers = pingpong},
                  config{.tile{128, 128}, .stages = 6, .consumers = gemm::in_turn}, config{.tile{64, 128}, .stages = 8},
                  config{.tile{128, 128}, .stages = 3, .consumers = by_warps}>;

template <activation Function, bool Joined>
void start(const gemm::matrices& m, const epilogue& e, const options& o, void* stream) {
    using operation = fused_product<Function, Joined>;
    const auto matrix = [&](const void* data, int64_t rows, int64_t stride) {
        return typename operation::matrix(static_cast<const bf16*>(data), 1, 1, int(rows), m.n, stride, 0, 0);
    };
    const typename operation::extra extra{matrix(e.bias, 1, m.n),
                                          matrix(e.gate, e.gate_batches, e.gate_stride),
                                          matrix(e.residual, m.m, e.residual_stride),
                                          divisor(int(m.m / e.gate_batches)),
                                          e.bias != nullptr,
                                          e.gate != nullptr,
                                          e.residual != nullptr};
    const gemm::problem<operation> p{m, extra};
    gemm::choose(kernels<operation>, std::size(kernels<operation>), p, o, "gemm").start(p, o, stream);
}

}  // namespace

void launch(const gemm::matrices& m, const epilogue& e, const options& o, void* stream) {
    const bool joined = e.gate != nullptr || e.residual != nullptr;
    const auto run = [&](auto with_more, auto alone) { (joined ? with_more : alone)(m, e, o, stream); };
    using enum activation;
    if (e.function == gelu) run(start<gelu, true>, start<gelu, false>);
    else if (e.function == gelu_tanh) run(start<gelu_tanh, true>, start<gelu_tanh, false>);
    else run(start<none, true>, start<none, false>);
}

}  // namespace tk::gemm_epilogue
