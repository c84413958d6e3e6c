// The bf16 GEMM's kernels, and its launch (choice.cuh).
#include "choice.cuh"

namespace tk::gemm {
namespace {

// The first four are what problems get unless told otherwise; the others answer to forced options (stages 1 to 3 are
// Table 1 of the paper). tile_m, tile_n, stages, cluster_m, cluster_n, ping-pong, Hilbert order.
constexpr int choices = 4;
constexpr built<product> kernels[] = {
    build<product, config{128, 256, 4, 1, 1, false}>(), build<product, config{128, 192, 4, 1, 1, true}>(),
    build<product, config{128, 128, 6, 1, 1, true}>(),  build<product, config{64, 128, 8, 1, 1, false}>(),
    build<product, config{128, 256, 3, 1, 1, false}>(), build<product, config{128, 256, 2, 1, 1, false}>(),
    build<product, config{128, 256, 1, 1, 1, false}>(), build<product, config{128, 256, 4, 2, 1, false}>(),
    build<product, config{128, 256, 4, 1, 2, false}>(), build<product, config{128, 192, 4, 2, 1, true}>(),
    build<product, config{128, 128, 6, 2, 1, true}>(),  build<product, config{256, 128, 4, 2, 1, false}>(),
    build<product, config{128, 128, 4, 1, 1, true}>(),  build<product, config{128, 256, 4, 1, 1, false, true}>(),
};

}  // namespace

void launch(void* out, const void* a, const void* b, int64_t M, int64_t N, int64_t K, int64_t lda, int64_t ldb,
            int64_t ldo, const options& o, void* stream) {
    require_indices(M, N, K, "gemm");
    auto data = [](const void* pointer) { return static_cast<bf16*>(const_cast<void*>(pointer)); };
    const problem<product> p{data(out), data(a), data(b), int(M), int(N), int(K), lda, ldb, ldo};
    choose(kernels, choices, p, o, "gemm").start(p, o, stream);
}

}  // namespace tk::gemm
