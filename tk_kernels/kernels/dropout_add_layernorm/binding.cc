// Exports dropout, residual addition and layer normalisation to Python: checks every argument, then launches on the
// caller's stream.
#include <algorithm>
#include <cstdint>

#include "dropout_add_layernorm.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;
using tk::dropout_add_layernorm::matrix;

constexpr DLDataType byte{kDLUInt, 8, 1};

void require_matrix(const char* name, const TensorView& tensor, const DLDataType& type, const TensorView& x) {
    require_tensor(name, tensor, 2, {type});
    require_device(name, tensor, {"x", x});
    require_shape(name, tensor, x.shape(), "that of x");
}

void require_vector(const char* name, const TensorView& vector, std::initializer_list<DLDataType> types,
                    const TensorView& x) {
    require_tensor(name, vector, 1, types);
    require_device(name, vector, {"x", x});
    require_shape(name, vector, {x.size(1)}, "the columns of x");
}

matrix as_matrix(const TensorView& tensor) { return {tensor.data_ptr(), stride_of(tensor, 0)}; }

// Computes normed and sum, and a mask where one is given. Returns 0 when it is launched, else launches nothing and
// returns which operands need a dense copy: 1 for x, 2 for residual, 4 for weight, 8 for bias.
std::int64_t dropout_add_layernorm(TensorView x, TensorView residual, TensorView weight, Optional<TensorView> bias,
                                   TensorView normed, TensorView sum, Optional<TensorView> mask, double p, double eps,
                                   std::int64_t seed, std::int64_t offset, bool rms, std::int64_t blocks) {
    require_matrix("x", x, bfloat16, x);
    require_matrix("residual", residual, bfloat16, x);
    require_matrix("normed", normed, bfloat16, x);
    require_matrix("sum", sum, bfloat16, x);
    require_vector("weight", weight, {bfloat16, float32}, x);
    if (bias.has_value()) require_vector("bias", bias.value(), {weight.dtype()}, x);
    if (mask.has_value()) require_matrix("mask", mask.value(), byte, x);
    const std::int64_t copies = copies_of({x, residual, weight, bias.has_value() ? bias.value() : weight});
    if (copies != 0) return copies;
    if (!is_addressable(normed) || !is_addressable(sum) || (mask.has_value() && !is_addressable(mask.value())))
        TVM_FFI_THROW(ValueError) << "normed, sum, mask: need dense rows at multiples of 16 bytes";
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
