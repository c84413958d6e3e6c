// The bf16 GEMM's kernels, and its launch (choice.cuh).
#include "choice.cuh"

namespace tk::gemm {
namespace {

// The first fifteen are what problems get unless told otherwise; the others answer to forced options (stages 1 to 3
// are Table 1 of the paper). tile_m, tile_n, stages, cluster_m, cluster_n, schedule, Hilbert order, promotion, divided.
constexpr int choices = 15;
constexpr auto& kernels = built_kernels<
    product, config{128, 256, 4, 1, 1, cooperative}, config{128, 192, 4, 1, 1, pingpong},
    config{128, 128, 6, 1, 1, in_turn}, config{64, 128, 8, 1, 1, cooperative}, config{16, 128, 6, 1, 1, swapped},
    config{64, 64, 12, 1, 1, swapped}, config{128, 64, 8, 1, 1, swapped}, config{128, 256, 4, 2, 1, cooperative},
    config{128, 192, 4, 2, 1, pingpong}, config{128, 128, 6, 2, 1, pingpong}, config{64, 128, 8, 2, 1, cooperative},
    config{128, 256, 4, 2, 1, cooperative, false, 0, true}, config{128, 192, 4, 1, 1, pingpong, false, 0, true},
    config{128, 128, 6, 1, 1, pingpong, false, 0, true}, config{128, 128, 3, 1, 1, by_warps},
    config{128, 256, 3, 1, 1, cooperative}, config{128, 256, 2, 1, 1, cooperative},
    config{128, 256, 1, 1, 1, cooperative}, config{128, 256, 4, 1, 2, cooperative},
    config{256, 128, 4, 2, 1, cooperative}, config{128, 128, 4, 1, 1, pingpong},
    config{128, 256, 4, 1, 1, cooperative, true}>;

}  // namespace

void launch(const matrices& m, const options& o, void* stream) {
    const problem<product> p{m};
    choose(kernels, choices, p, o, "gemm").start(p, o, stream);
}

std::string stalled() { return kittens::stalled_counter(); }

}  // namespace tk::gemm
