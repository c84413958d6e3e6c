// The FP8 GEMM's kernels, and its launch (choice.cuh).
#include "choice.cuh"
#include "gemm_fp8.cuh"

namespace tk::gemm_fp8 {
namespace {

using gemm::built_kernels, gemm::config;
using enum gemm::schedule;

// The first ones are what problems get unless told otherwise; the others answer to forced options. Factors of columns
// do not fit beside the 192 registers of sums of 128x192 ping-pong.
template <typename Operation>
constexpr auto& fast_kernels = built_kernels<
    Operation, config{.tile{128, 256}, .stages = 4}, config{.tile{128, 128}, .stages = 6, .consumers = pingpong},
    config{.tile{64, 128}, .stages = 8}, config{.tile{128, 192}, .stages = 4, .consumers = pingpong},
    config{.tile{128, 160}, .stages = 5, .consumers = pingpong},
    config{.tile{16, 128}, .stages = 6, .consumers = swapped},
    config{.tile{64, 128}, .stages = 8, .consumers = swapped},
    config{.tile{128, 64}, .stages = 8, .consumers = swapped}, config{.tile{128, 256}, .stages = 4, .cluster{2, 1}},
    config{.tile{128, 192}, .stages = 4, .cluster{2, 1}, .consumers = pingpong}>;
template <typename Operation>
constexpr auto& fast_vector_kernels =
    built_kernels<Operation, config{.tile{128, 128}, .stages = 6, .consumers = pingpong},
                  config{.tile{64, 128}, .stages = 8}, config{.tile{128, 256}, .stages = 4}>;
// Without fast accumulation: sums of 1024 values of K.
template <typename Operation>
constexpr auto& precise_kernels = built_kernels<Operation, config{.tile{128, 192}, .stages = 4, .promotion = 8},
                                                config{.tile{128, 128}, .stages = 6, .promotion = 8}>;

template <typename Result, bool Vectors>
void start(const gemm::matrices& m, const scaling& s, const options& o, void* stream) {
    using operation = scaled_product<Result, Vectors>;
    const typename operation::extra extra{{s.a.data, 1, 1, m.m, 1, s.a.stride, 0, 0},
                                          {s.b.data, 1, 1, 1, m.n},
                                          s.a.data != nullptr,
                                          s.b.data != nullptr,
                                          s.b.stride != 0};
    const gemm::problem<operation> p{m, extra};
    const auto run = [&](const auto& kernels, int choices) {
        gemm::choose(kernels, choices, p, o, "gemm_fp8").start(p, o, stream);
    };
    if (!s.fast_accum) run(precise_kernels<operation>, 2);
    else if constexpr (Vectors) run(fast_vector_kernels<operation>, 2);
    else run(fast_kernels<operation>, 10);
}

}  // namespace

void launch(const gemm::matrices& m, const scaling& s, const options& o, void* stream) {
    const bool vectors = s.a.stride != 0 || s.b.stride != 0;
    if (s.type == result::bf16) vectors ? start<bf16, true>(m, s, o, stream) : start<bf16, false>(m, s, o, stream);
    else vectors ? start<e4m3, true>(m, s, o, stream) : start<e4m3, false>(m, s, o, stream);
}

}  // namespace tk::gemm_fp8
