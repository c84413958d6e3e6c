// The host interface of the bf16 GEMM with an epilogue: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

#include "gemm.h"

namespace tk::gemm_epilogue {

using gemm::largest_size;
using gemm::options;

enum class activation { none = 0, gelu = 1, gelu_tanh = 2 };

// Rows of a strip, which lie in one batch of the gate.
constexpr std::int64_t batch_multiple = 16;

// What becomes of the sums s = sum over k of a[m, k] b[k, n]: out = residual + gate activation(s + bias). All bf16;
// null pointers leave a term out (a gate is then 1). Rows of what is read begin at multiples of 4 bytes; where N is
// odd, an element behind each is read too.
struct epilogue {
    activation function = activation::none;
    const void* bias = nullptr;      // (N)
    const void* gate = nullptr;      // (batches, N), row stride `gate_stride`
    const void* residual = nullptr;  // (M, N), row stride `residual_stride`
    std::int64_t gate_batches = 1;   // M is a multiple of it, and M / gate_batches of batch_multiple unless it is 1
    std::int64_t gate_stride = 0, residual_stride = 0;
};

// Matrices and options as of gemm::launch. Throws std::invalid_argument for options or sizes that no kernel is built
// for.
void launch(const gemm::matrices&, const epilogue&, const options&, void* stream);

}  // namespace tk::gemm_epilogue
