// The host interface of attention's backward pass by warps: what binding.cc may call and nothing more.
#pragma once

#include "attention.h"

namespace tk::attention {

// As backward_scratch and backward of the kernel attention.
std::int64_t scratch_by_warps(const problem&, bool deterministic);
void backward_by_warps(const problem&, const gradients&, void* stream);

}  // namespace tk::attention
