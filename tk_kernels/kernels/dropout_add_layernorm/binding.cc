// Exports dropout, residual addition and layer normalisation to Python: launches on the caller's stream.
#include <cstdint>

#include "dropout_add_layernorm.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;
using tk::dropout_add_layernorm::matrix;

matrix as_matrix(const TensorView& tensor) { return {tensor.data_ptr(), stride_of(tensor, 0)}; }

// Computes normed and sum, and a mask where one is given. Returns 0 when it is launched, else launches nothing and
// returns which operands need a dense copy: 1 for x, 2 for residual, 4 for weight, 8 for bias.
std::int64_t dropout_add_layernorm(TensorView x, TensorView residual, TensorView weight, Optional<TensorView> bias,
                                   TensorView normed, TensorView sum, Optional<TensorView> mask, double p, double eps,
                                   std::int64_t seed, std::int64_t offset, bool rms, std::int64_t blocks) {
    const std::int64_t copies = copies_of({x, residual, weight, bias.has_value() ? bias.value() : weight});
    if (copies != 0) return copies;
    const tk::dropout_add_layernorm::problem problem{x.size(0),
                                                     narrow(x.size(1)),
                                                     weight.dtype().bits == 32,
                                                     rms,
                                                     static_cast<float>(eps),
                                                     p,
                                                     static_cast<std::uint64_t>(seed),
                                                     static_cast<std::uint64_t>(offset),
                                                     narrow(blocks)};
    launching([&] {
        tk::dropout_add_layernorm::launch(as_matrix(normed), as_matrix(sum),
                                          mask.has_value() ? as_matrix(mask.value()) : matrix{nullptr, 0}, as_matrix(x),
                                          as_matrix(residual), weight.data_ptr(),
                                          bias.has_value() ? bias.value().data_ptr() : nullptr, problem, stream_of(x));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(dropout_add_layernorm, dropout_add_layernorm);
