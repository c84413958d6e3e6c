// The host interface of the FP8 GEMM: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

#include "../gemm/gemm.h"

namespace tk::gemm_fp8 {

using gemm::largest_size;
using gemm::options;

// The elements of `out`.
enum class result { bf16 = 0, e4m3 = 1 };

// Factors of the rows or of the columns, fp32: factor i is data[i * stride]; stride 0 is one factor for all. Those of columns
// are dense (stride 1). Without data they are 1.
struct factors {
    const float* data = nullptr;
    std::int64_t stride = 0;
};

// out[m, n] = scale_a[m] scale_b[n] sum over k of a[m, k] b[n, k]; e4m3 in, fp32 sums, bf16 or e4m3 out, the latter
// saturating at 448. `b` is the transpose of what is multiplied.
// Row-major, unit column stride; lda, ldb, ldo are row strides in elements. For the TMA the base addresses are multiples of
// 16 bytes and the row strides multiples of 16 bytes. Rows of `out` are written up to the next multiple of 16 bytes: where
// N is none, the rest must be padding of its own.
// fast_accum: the tensor cores add up all of K, in sums of about 14 bits; else only 1024 of it, and the rest is fp32.
// `stream` is a cudaStream_t (ignored by the cpu target).
// Throws std::invalid_argument for options or sizes that no kernel is built for.
void launch(void* out, result type, const void* a, const void* b, std::int64_t M, std::int64_t N, std::int64_t K,
            std::int64_t lda, std::int64_t ldb, std::int64_t ldo, factors scale_a, factors scale_b, bool fast_accum,
            const options&, void* stream);

}  // namespace tk::gemm_fp8
