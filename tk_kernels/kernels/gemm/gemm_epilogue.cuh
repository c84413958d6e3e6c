// bf16 GEMM with an epilogue: C = residual + gate * activation(A B + bias), each of them left out where it is not
// given.
//
// The kernel is that of the plain GEMM (gemm.cuh) with another operation: the epilogue's arithmetic is in fp32
// on the sums, 16 rows and 64 columns at a time, so that nothing is rounded but the result. In ping-pong kernels it
// runs under the other consumer's multiplies.
//
// traffic    a bias (N) and a gate (N, or a row of N for each batch of rows) are read once a strip, from L2; the
//            residual (M, N) once, two elements at a time, straight into registers; the producer has asked for it to be
//            in L2
// registers  240 of a consumer's thread, which leave the producer 24; with 192 of sums the epilogue goes by 16 columns.
//            An activation and a gate or residual together: 232, and no tiles of 128x192
#pragma once

#include "gemm.cuh"
#include "gemm_epilogue.h"

namespace tk::gemm_epilogue {

using namespace kittens;

// x Phi(x), Phi being the normal distribution's, with one exponential and no branch: Phi(-t) = 2^p(t) for t from 0 on,
// where p is the polynomial of degree 8 nearest to log2 Phi(-t) on [0, 13] (least largest error, fitted to PyTorch's
// log_ndtr in fp64 by Lawson's weights): 1.3e-4 of Phi(-t), a thirtieth of bf16's rounding. Past 13 x
// counts as 13: -8e-38 at most comes out, where 0 is right.
kittens_device float gelu(float x) {
    const float t = math::min(math::abs(x), 13.f);
    float p = 2.86046973e-08f;
    p = p * t - 1.80115012e-06f;
    p = p * t + 4.8918082e-05f;
    p = p * t - 0.000757335103f;
    p = p * t + 0.00749329431f;
    p = p * t - 0.0510252155f;
    p = p * t - 0.462455511f;
    p = p * t - 1.14921904f;
    p = p * t - 1.00016749f;
    const float half = 0.5f * x;
    return half + math::abs(half) - t * math::exp2(p);  // max(x, 0) - t Phi(-t); a NaN stays one
}

// The same by an approximation of Phi with a tanh, 1 + tanh(y) = 2 / (1 + exp(-2 y)).
kittens_device float gelu_tanh(float x) {
    constexpr float scale = -2.302208198f, cubic = 0.044715f * scale;  // -2 sqrt(2 / pi) log2(e)
    return x * math::reciprocal(1.f + math::exp2(x * (scale + cubic * (x * x))));
}

template <activation Function> kittens_device float activate(float x) {
    if constexpr (Function == activation::gelu) return gelu(x);
    else if constexpr (Function == activation::gelu_tanh) return gelu_tanh(x);
    else return x;
}

// Joined: there is a gate or a residual. Without an activation or without those, tiles of 128x192 fit, if only just: a
// thread has 240 registers and the producer's 24.
template <activation Function, bool Joined> struct fused_product : gemm::product {
    static constexpr bool fits_192 = Function == activation::none || !Joined;
    static constexpr int consumer_registers = limits::consumer_registers(fits_192 ? 24 : 40);

    using matrix = gl<const bf16, 1, 1, dynamic, dynamic>;
    struct extra {
        matrix bias, gate, residual;
        divisor batch_rows;  // of C that share a row of the gate
        bool has_bias, has_gate, has_residual;
    };

    // The residual of a tile comes to L2 while the tile is multiplied.
    template <int Rows, int Cols> kittens_device static void prefetch(const extra& e, element_coord at) {
        if (Joined && e.has_residual)
            for (int j = 0; j < Cols; j += 64) prefetch_tile<Rows, 64>(e.residual, element_coord{0, 0, at.r, at.c + j});
    }

    // Issue slots a sum, which the consumers at work together share, and what a strip of 32 sums waits for memory: 300
    // clocks for rows that all warps read, 700 for a residual in L2, and more where its pieces are read one by one.
    static double finish_clocks(const extra& e, int sums, int consumers) {
        constexpr double activation_slots = Function == activation::none ? 0 : 14;
        const double slots = activation_slots + 1.5 * (e.has_bias + e.has_gate) + 2.5 * e.has_residual;
        const double wait = e.has_residual ? 700 : e.has_bias || e.has_gate ? 300 : 0;
        return slots * sums * consumers + wait * (sums > 128 ? 2 : 1) * sums / 32;
    }

    template <int Sums> kittens_device static void finish(rt_fl<16, 64>& sums, const extra& e, element_coord at) {
        if (Joined && at.r >= e.residual.rows()) return;  // a strip below the last row
        if constexpr (Sums <= 128) {
            fuse(sums, e, at);
        } else {  // what is read beside the sums has few registers
#pragma unroll
            for (int j = 0; j < 4; j++) {
                rt_fl<16, 16> some;
                part(some, sums, 0, j);
                fuse(some, e, element_coord{0, 0, at.r, at.c + 16 * j});
                place(sums, some, 0, j);
            }
        }
    }

    template <typename Vec> kittens_device static void load_gate(Vec& gate, const extra& e, element_coord at) {
        load_pairs(gate, e.gate, element_coord{0, 0, e.batch_rows.divide(at.r), at.c});
    }

    template <int Cols> kittens_device static void fuse(rt_fl<16, Cols>& sums, const extra& e, element_coord at) {
        typename rt_fl<16, Cols>::row_vec bias, gate;
        rt_bf<16, Cols> residual;
        // What there is room for is asked for before anything is used.
        if (Joined && e.has_residual) load_pairs(residual, e.residual, at);
        if (Joined && Cols == 64 && e.has_gate) load_gate(gate, e, at);
        if (e.has_bias) {
            load_pairs(bias, e.bias, element_coord{0, 0, 0, at.c});
            add_col(sums, sums, bias);
        }
        if constexpr (Function != activation::none) map(sums, sums, activate<Function>);
        if (Joined && e.has_gate) {
            if (Cols < 64) load_gate(gate, e, at);
            mul_col(sums, sums, gate);
        }
        if (Joined && e.has_residual) add(sums, sums, residual);
    }
};

}  // namespace tk::gemm_epilogue
