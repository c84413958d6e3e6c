// Exports the FP8 GEMM to Python: launches on the caller's stream.
#include <cstdint>

#include "arguments.h"
#include "gemm_fp8.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// One factor, or one for each of `count` rows (of columns where not `rows`), which lie one after another.
tk::gemm_fp8::factors as_factors(const Optional<TensorView>& given, std::int64_t count, bool rows) {
    if (!given.has_value()) return {};
    const TensorView& scale = given.value();
    const int along = rows ? 0 : 1;
    const bool vector = count > 1 && scale.ndim() == 2 && scale.size(along) == count;
    return {numbers(scale), vector ? scale.stride(along) : 0};
}

// Computes out = scale_a scale_b a b_transposed^T. Returns 0 when it is launched, else launches nothing and returns
// copies_of.
std::int64_t gemm_fp8(TensorView a, TensorView b_transposed, TensorView out, std::int64_t copied,
                      Optional<TensorView> scale_a, Optional<TensorView> scale_b, bool fast_accum, std::int64_t stages,
                      std::int64_t persistent, std::int64_t order, std::int64_t tile_m, std::int64_t tile_n,
                      std::int64_t cluster_m, std::int64_t cluster_n, std::int64_t schedule, std::int64_t split) {
    const std::int64_t M = a.size(0), N = b_transposed.size(0), K = a.size(1);
    const matrix ma = as_matrix(a), mb = as_matrix(b_transposed), mo = as_matrix(out);
    const auto rows = as_factors(scale_a, M, true), cols = as_factors(scale_b, N, false);
    const std::int64_t copies = copies_of(ma, mb, mo, copied);
    if (copies != 0) return copies;

    const tk::gemm_fp8::options options{narrow(stages),    narrow(persistent), narrow(order),
                                        narrow(tile_m),    narrow(tile_n),     narrow(cluster_m),
                                        narrow(cluster_n), narrow(schedule),   narrow(split)};
    const auto type = mo.element_bytes == 2 ? tk::gemm_fp8::result::bf16 : tk::gemm_fp8::result::e4m3;
    launching([&] {
        tk::gemm_fp8::launch(
            {mo.data, ma.data, mb.data, M, N, K, ma.row_stride, mb.row_stride, mo.row_stride, (copied & 3) != 0},
            {type, rows, cols, fast_accum}, options, stream_of(a));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_fp8, gemm_fp8);
