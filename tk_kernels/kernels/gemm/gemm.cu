// Which tile, cluster and schedule a problem gets, and the kernels that are built.
#include "gemm.h"

#include "gemm.cuh"

namespace tk::gemm {

template <config C>
void start(void* out, const void* a, const void* b, int M, int N, int K, int64_t lda, int64_t ldb, int64_t ldo,
           const options& o, void* stream) {
    using kernel = kernel<C>;
    using pipeline = lcf<kernel>;
    using matrix = typename kernel::matrix;
    auto tensor = [](const void* data, int rows, int cols, int64_t stride) {
        return matrix(static_cast<bf16*>(const_cast<void*>(data)), 1, 1, rows, cols, stride, 0, 0);
    };
    auto ceil_div = [](int x, int y) { return (x + y - 1) / y; };
    const int tiles_m = ceil_div(M, C.tile_m * C.cluster_m), tiles_n = ceil_div(N, C.tile_n * C.cluster_n);
    typename kernel::globals g{tensor(a, M, K, lda), tensor(b, K, N, ldb), tensor(out, M, N, ldo), tiles_m, tiles_n,
                               ceil_div(K, kernel::tile_k), tile_order(o.order < 0 ? 0 : o.order), 8 / C.cluster_m};
    const int tiles = tiles_m * tiles_n, resident = multiprocessors() / kernel::cluster_blocks;
    const int clusters = o.persistent == 0 || tiles < resident ? tiles : resident;
    kittens::launch<pipeline>({clusters * kernel::cluster_blocks, pipeline::shared_bytes}, stream, g);
}

}  // namespace tk::gemm
