// FP8 GEMM, C = scale_a scale_b A B^T: A (M, K), B (N, K) e4m3, C (M, N) bf16 or e4m3, row-major, sums in fp32.
//
// The kernel is that of the bf16 GEMM (gemm.cuh) with another operation: a step is 128 bytes of K, which are
// 128 elements; B comes with K contiguous, as the tensor cores read 8-bit elements; the sums are scaled before they are
// rounded.
//
// precision      the tensor cores keep about 14 bits of a sum. Promoted kernels take each step's sums out of them and
//                add in fp32 registers: twice the accumulator, so tiles of 128x128
// shared memory  as the bf16 GEMM's at the same tile
// registers      128 of 232 for the sums at 128x256 cooperative, 192 at 128x192 ping-pong, 2 x 64 promoted at 128x128
// any M and N; K a multiple of 16: tails are zeros on load and are clipped on store
#pragma once

#include "gemm.cuh"
#include "gemm_fp8.h"

namespace tk::gemm_fp8 {

using namespace kittens;

// e4m3 operands, results of type Result. Vectors: rows, columns or both have factors of their own; else there is at
// most one for all rows and one for all columns.
template <typename Result, bool Vectors> struct scaled_product : gemm::product {
    using operand = e4m3;
    using result = Result;
    static constexpr bool transposed_b = true;

    using column = gl<const float, 1, 1, dynamic, 1>;  // one factor a row of A, or one for all: its stride is then 0
    using row = gl<const float, 1, 1, 1, dynamic>;     // one factor a column of C, or one for all: by_column says which
    struct extra {
        column a;
        row b;
        bool scaled_a, scaled_b, by_column;
    };

    template <int Sums, int Cols>
    kittens_device static void finish(rt_fl<16, Cols>& sums, const extra& scale, element_coord at) {
        if constexpr (Vectors) {
            typename rt_fl<16, Cols>::col_vec rows;
            typename rt_fl<16, Cols>::row_vec cols;
            if (scale.scaled_a) {
                load_column(rows, scale.a, {0, 0, at.r, 0});
                mul_row(sums, sums, rows);
            }
            if (scale.by_column) {
                load(cols, scale.b, element_coord{0, 0, 0, at.c});
                mul_col(sums, sums, cols);
            } else if (scale.scaled_b) {
                mul(sums, sums, load_value(scale.b, {}));
            }
        } else {
            const float a = scale.scaled_a ? load_value(scale.a, {}) : 1.f;
            mul(sums, sums, scale.scaled_b ? a * load_value(scale.b, {}) : a);
        }
    }
};

}  // namespace tk::gemm_fp8
