// bf16 GEMM with an epilogue: C = residual + gate * activation(A B + bias), each of them left out where it is not given.
//
// The kernel is that of the plain GEMM (../gemm/gemm.cuh) with another operation: the epilogue's arithmetic is in fp32 on the
// sums, 16 rows and 64 columns at a time, so that nothing is rounded but the result. In ping-pong kernels it runs under the
// other consumer's multiplies.
//
// traffic    a bias (N) and a gate (N, or a row of N for each batch of rows) are read once a strip, from L2; the residual
//            (M, N) once, straight into registers
// registers  16 values of a bias or a gate a thread do not fit beside 192 of sums: tiles of 128x256, 128x128 and 64x128
#pragma once

#include "../gemm/gemm.cuh"
#include "gemm_epilogue.h"

namespace tk::gemm_epilogue {

using namespace kittens;

// x Phi(x), Phi being the normal distribution's: by the error function, or by its approximation with a tanh, which is a
// logistic function.
template <activation Function> kittens_device float activate(float x) {
    if constexpr (Function == activation::gelu) return 0.5f * x * (1.f + math::erf(0.70710678f * x));
    else if constexpr (Function == activation::gelu_tanh)
        return x / (1.f + math::exp(-1.5957691216f * (x + 0.044715f * x * x * x)));
    else return x;
}

template <activation Function> struct fused_product {
    using operand = bf16;
    using result = bf16;
    static constexpr bool transposed_b = false;

    using matrix = gl<const bf16, 1, 1, dynamic, dynamic>;
    struct extra {
        matrix bias, gate, residual;
        int batch_rows;  // rows of C that share a row of the gate
        bool has_bias, has_gate, has_residual;
    };

    kittens_device static void finish(rt_fl<16, 64>& sums, const extra& e, element_coord at) {
        if (at.r >= e.residual.rows()) return;  // a strip below the last row
        typename rt_fl<16, 64>::row_vec cols;
        if (e.has_bias) {
            load(cols, e.bias, element_coord{0, 0, 0, at.c});
            add_col(sums, sums, cols);
        }
        if constexpr (Function != activation::none) map(sums, sums, activate<Function>);
        if (e.has_gate) {
            load(cols, e.gate, element_coord{0, 0, at.r / e.batch_rows, at.c});
            mul_col(sums, sums, cols);
        }
        if (e.has_residual) {
            rt_fl<16, 64> before;
            load(before, e.residual, at);
            add(sums, sums, before);
        }
    }
};

}  // namespace tk::gemm_epilogue
