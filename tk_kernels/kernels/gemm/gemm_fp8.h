// The host interface of the FP8 GEMM: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

#include "gemm.h"

namespace tk::gemm_fp8 {

using gemm::largest_size;
using gemm::options;

// The elements of `out`.
enum class result { bf16 = 0, e4m3 = 1 };

// Factors of the rows or of the columns, fp32: factor i is data[i * stride]; stride 0 is one factor for all. Those of
// columns are dense (stride 1). Without data they are 1.
struct factors {
    const float* data = nullptr;
    std::int64_t stride = 0;
};

// How sums become results. fast_accum: the tensor cores add up all of k, in sums of about 14 bits; else only 1024 of
// it, and the rest is fp32.
struct scaling {
    result type;
    factors a, b;
    bool fast_accum;
};

// out[i, j] = a's factor[i] b's factor[j] sum over l of a[i, l] b[j, l]; e4m3 in, fp32 sums, bf16 or e4m3 out, the
// latter saturating at 448. Matrices and options as of gemm::launch, but `b` is the transpose of what is multiplied,
// (n, k). Throws std::invalid_argument for options or sizes that no kernel is built for.
void launch(const gemm::matrices&, const scaling&, const options&, void* stream);

}  // namespace tk::gemm_fp8
