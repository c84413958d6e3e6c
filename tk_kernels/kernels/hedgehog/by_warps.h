// The host interface of Hedgehog by warps: what binding.cc may call and nothing more.
#pragma once

#include "hedgehog.h"

namespace tk::hedgehog {

// As segments and forward.
int segments_by_warps(const problem&, int wanted);
void forward_by_warps(const problem&, const tensor& q, const tensor& k, const tensor& v, const tensor& out,
                      const head_weights&, const states&, int segments, float* scratch, void* stream);

}  // namespace tk::hedgehog
