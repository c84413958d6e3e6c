// The FP8 GEMM's kernels, and its launch (../gemm/choice.cuh).
#include "../gemm/choice.cuh"
#include "gemm_fp8.cuh"

namespace tk::gemm_fp8 {
namespace {

using gemm::build, gemm::built, gemm::config;

// The first ones are what problems get unless told otherwise; the others answer to forced options. Factors of columns do not
// fit beside the 192 registers of sums of 128x192 ping-pong.
template <typename Operation>
constexpr built<Operation> fast_kernels[] = {
    build<Operation, config{128, 256, 4, 1, 1, false}>(), build<Operation, config{128, 128, 6, 1, 1, true}>(),
    build<Operation, config{64, 128, 8, 1, 1, false}>(),  build<Operation, config{128, 192, 4, 1, 1, true}>(),
    build<Operation, config{128, 256, 4, 2, 1, false}>(), build<Operation, config{128, 192, 4, 2, 1, true}>(),
};
template <typename Operation>
constexpr built<Operation> fast_vector_kernels[] = {
    build<Operation, config{128, 128, 6, 1, 1, true}>(),
    build<Operation, config{64, 128, 8, 1, 1, false}>(),
    build<Operation, config{128, 256, 4, 1, 1, false}>(),
};
// Without fast accumulation: sums of 1024 values of K.
template <typename Operation>
constexpr built<Operation> precise_kernels[] = {
    build<Operation, config{128, 192, 4, 1, 1, false, false, 8}>(),
    build<Operation, config{128, 128, 6, 1, 1, false, false, 8}>(),
};

struct call {
    void* out;
    const void *a, *b;
    int M, N, K;
    int64_t lda, ldb, ldo;
    factors scale_a, scale_b;
    bool fast_accum;
};

template <typename Result, bool Vectors> void start(const call& c, const options& o, void* stream) {
    using operation = scaled_product<Result, Vectors>;
    const typename operation::extra extra{{c.scale_a.data, 1, 1, c.M, 1, c.scale_a.stride, 0, 0},
                                          {c.scale_b.data, 1, 1, 1, c.N},
                                          c.scale_a.data != nullptr,
                                          c.scale_b.data != nullptr,
                                          c.scale_b.stride != 0};
    auto data = [](const void* pointer) { return static_cast<e4m3*>(const_cast<void*>(pointer)); };
    const gemm::problem<operation> p{
        static_cast<Result*>(c.out), data(c.a), data(c.b), c.M, c.N, c.K, c.lda, c.ldb, c.ldo, extra};
    const auto run = [&](const auto& kernels, int choices) {
        gemm::choose(kernels, choices, p, o, "gemm_fp8").start(p, o, stream);
    };
    if (!c.fast_accum) run(precise_kernels<operation>, 2);
    else if constexpr (Vectors) run(fast_vector_kernels<operation>, 2);
    else run(fast_kernels<operation>, 4);
}

}  // namespace

void launch(void* out, result type, const void* a, const void* b, int64_t M, int64_t N, int64_t K, int64_t lda,
            int64_t ldb, int64_t ldo, factors scale_a, factors scale_b, bool fast_accum, const options& o,
            void* stream) {
    gemm::require_indices(M, N, K, "gemm_fp8");
    const bool vectors = scale_a.stride != 0 || scale_b.stride != 0;
    const call c{out, a, b, int(M), int(N), int(K), lda, ldb, ldo, scale_a, scale_b, fast_accum};
    if (type == result::bf16) vectors ? start<bf16, true>(c, o, stream) : start<bf16, false>(c, o, stream);
    else vectors ? start<e4m3, true>(c, o, stream) : start<e4m3, false>(c, o, stream);
}

}  // namespace tk::gemm_fp8
