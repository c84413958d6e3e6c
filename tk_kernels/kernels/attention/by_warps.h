// The host interface of attention by warps: what binding.cc may call and nothing more.
#pragma once

#include "attention.h"

namespace tk::attention {

// As tk::attention::forward, without its options.
void forward_by_warps(const problem&, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* lse,
                      void* stream);

}  // namespace tk::attention
