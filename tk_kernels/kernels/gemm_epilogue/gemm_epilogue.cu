// The kernels of the bf16 GEMM with an epilogue, and its launch (../gemm/choice.cuh).
#include "../gemm/choice.cuh"
#include "gemm_epilogue.cuh"

namespace tk::gemm_epilogue {
namespace {

using gemm::build, gemm::built, gemm::config;

template <typename Operation>
constexpr built<Operation> kernels[] = {
    build<Operation, config{128, 256, 4, 1, 1, false}>(),
    build<Operation, config{128, 128, 6, 1, 1, true}>(),
    build<Operation, config{64, 128, 8, 1, 1, false}>(),
};
template <typename Operation>
    requires Operation::fits_192
constexpr built<Operation> kernels<Operation>[] = {
    build<Operation, config{128, 256, 4, 1, 1, false}>(),
    build<Operation, config{128, 192, 4, 1, 1, true}>(),
    build<Operation, config{128, 128, 6, 1, 1, true}>(),
    build<Operation, config{64, 128, 8, 1, 1, false}>(),
};

struct call {
    void* out;
    const void *a, *b;
    int M, N, K;
    int64_t lda, ldb, ldo;
};

template <activation Function, bool Joined> void start(const call& c, const epilogue& e, const options& o,
                                                       void* stream) {
    using operation = fused_product<Function, Joined>;
    const auto matrix = [&](const void* data, int64_t rows, int64_t stride) {
        return typename operation::matrix(static_cast<const bf16*>(data), 1, 1, int(rows), c.N, stride, 0, 0);
    };
    const typename operation::extra extra{matrix(e.bias, 1, c.N),
                                          matrix(e.gate, e.gate_batches, e.gate_stride),
                                          matrix(e.residual, c.M, e.residual_stride),
                                          divisor(int(c.M / e.gate_batches)),
                                          e.bias != nullptr,
                                          e.gate != nullptr,
                                          e.residual != nullptr};
    auto data = [](const void* pointer) { return static_cast<bf16*>(const_cast<void*>(pointer)); };
    const gemm::problem<operation> p{data(c.out), data(c.a), data(c.b), c.M, c.N, c.K, c.lda, c.ldb, c.ldo, extra};
    gemm::choose(kernels<operation>, std::size(kernels<operation>), p, o, "gemm").start(p, o, stream);
}

}  // namespace

void launch(void* out, const void* a, const void* b, int64_t M, int64_t N, int64_t K, int64_t lda, int64_t ldb,
            int64_t ldo, const epilogue& e, const options& o, void* stream) {
    gemm::require_indices(M, N, K, "gemm");
    const call c{out, a, b, int(M), int(N), int(K), lda, ldb, ldo};
    const bool joined = e.gate != nullptr || e.residual != nullptr;
    const auto run = [&](auto with_more, auto alone) { (joined ? with_more : alone)(c, e, o, stream); };
    using enum activation;
    if (e.function == gelu) run(start<gelu, true>, start<gelu, false>);
    else if (e.function == gelu_tanh) run(start<gelu_tanh, true>, start<gelu_tanh, false>);
    else run(start<none, true>, start<none, false>);
}

}  // namespace tk::gemm_epilogue
