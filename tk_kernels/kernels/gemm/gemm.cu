// The bf16 GEMM's kernels, and its launch (choice.cuh).
#include "choice.cuh"

namespace tk::gemm {
namespace {

// The first twenty-one are what problems get unless told otherwise; the others answer to forced options (stages 1 to 3
// are Table 1 of the paper).
constexpr int choices = 21;
constexpr auto& kernels = built_kernels<
    product, config{.tile{128, 256}, .stages = 4}, config{.tile{128, 192}, .stages = 4, .consumers = pingpong},
    config{.tile{128, 128}, .stages = 6, .consumers = in_turn}, config{.tile{64, 128}, .stages = 8},
    config{.tile{16, 128}, .stages = 6, .consumers = swapped},
    config{.tile{64, 64}, .stages = 12, .consumers = swapped},
    config{.tile{128, 64}, .stages = 8, .consumers = swapped}, config{.tile{128, 256}, .stages = 4, .cluster{2, 1}},
    config{.tile{128, 192}, .stages = 4, .cluster{2, 1}, .consumers = pingpong},
    config{.tile{128, 128}, .stages = 6, .cluster{2, 1}, .consumers = pingpong},
    config{.tile{64, 128}, .stages = 8, .cluster{2, 1}},
    config{.tile{128, 256}, .stages = 4, .cluster{2, 1}, .divided = true},
    config{.tile{128, 192}, .stages = 4, .consumers = pingpong, .divided = true},
    config{.tile{128, 128}, .stages = 6, .consumers = pingpong, .divided = true},
    config{.tile{128, 256}, .stages = 4, .divided = true}, config{.tile{64, 192}, .stages = 6, .consumers = pingpong},
    config{.tile{64, 256}, .stages = 5}, config{.tile{256, 160}, .stages = 4},
    config{.tile{16, 64}, .stages = 10, .consumers = swapped}, config{.tile{32, 64}, .stages = 8, .consumers = swapped},
    config{.tile{128, 128}, .stages = 3, .consumers = by_warps}, config{.tile{128, 256}, .stages = 3},
    config{.tile{128, 256}, .stages = 2}, config{.tile{128, 256}, .stages = 1},
    config{.tile{128, 256}, .stages = 4, .cluster{1, 2}}, config{.tile{256, 128}, .stages = 4, .cluster{2, 1}},
    config{.tile{128, 128}, .stages = 4, .consumers = pingpong}, config{.tile{128, 256}, .stages = 4, .hilbert = true}>;

}  // namespace

void launch(const matrices& m, const options& o, void* stream) {
    const problem<product> p{m};
    choose(kernels, choices, p, o, "gemm").start(p, o, stream);
}

std::string stalled() { return kittens::stalled_counter(); }

}  // namespace tk::gemm
