// How the host tells a kernel where a tensor lies. Plain C++.
#pragma once

#include <cstdint>

namespace tk {

// A bf16 tensor (batch, heads, rows, dim): unit stride along dim, the other strides in elements. For the kernels the
// base address is a multiple of 16 bytes and the strides are multiples of 8 elements.
struct tensor {
    void* data;
    std::int64_t batch_stride, head_stride, row_stride;
};

}  // namespace tk
