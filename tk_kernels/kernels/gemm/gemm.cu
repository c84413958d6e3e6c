// The bf16 GEMM's kernels, and its launch (choice.cuh).
#include "choice.cuh"

namespace tk::gemm {
namespace {

// The first four are what problems get unless told otherwise; the others answer to forced options (stages 1 to 3 are
// Table 1 of the paper). tile_m, tile_n, stages, cluster_m, cluster_n, ping-pong, Hilbert order.
constexpr int choices = 4;
constexpr auto& kernels =
    built_kernels<product, config{128, 256, 4, 1, 1, false}, config{128, 192, 4, 1, 1, true},
                  config{128, 128, 6, 1, 1, true}, config{64, 128, 8, 1, 1, false}, config{128, 256, 3, 1, 1, false},
                  config{128, 256, 2, 1, 1, false}, config{128, 256, 1, 1, 1, false}, config{128, 256, 4, 2, 1, false},
                  config{128, 256, 4, 1, 2, false}, config{128, 192, 4, 2, 1, true}, config{128, 128, 6, 2, 1, true},
                  config{256, 128, 4, 2, 1, false}, config{128, 128, 4, 1, 1, true},
                  config{128, 256, 4, 1, 1, false, true}>;

}  // namespace

void launch(const matrices& m, const options& o, void* stream) {
    const problem<product> p{m};
    choose(kernels, choices, p, o, "gemm").start(p, o, stream);
}

}  // namespace tk::gemm
