// The host interface of dropout, residual addition and layer normalisation: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

namespace tk::dropout_add_layernorm {

// A matrix of rows; the row stride in elements. Base and row stride are multiples of 16 bytes (8 bytes for the mask).
struct matrix {
    void* data;
    std::int64_t row_stride;
};

struct problem {
    std::int64_t rows;
    int cols;            // D: a multiple of 64 up to 8192
    bool weights_float;  // weight and bias are fp32, else bf16
    bool rms;            // divides by the root mean square; the mean stays
    float eps;
    double p;                    // probability of dropping, in [0, 1)
    std::uint64_t seed, offset;  // read where p > 0
    int blocks;                  // of the grid, each walking over rows; 0: one block a row (or a few)
};

// r = residual + dropout(x); normed = (r - mean) / sqrt(variance + eps) * weight + bias; sum = r. bf16 in and out,
// statistics in fp32 of the unrounded r. weight and bias have `cols` elements; bias.data may be null. mask.data may be
// null; else it gets a byte an element, 1 where x was kept. `stream` is a cudaStream_t (ignored by the cpu target).
void launch(const matrix& normed, const matrix& sum, const matrix& mask, const matrix& x, const matrix& residual,
            const void* weight, const void* bias, const problem&, void* stream);

}  // namespace tk::dropout_add_layernorm
