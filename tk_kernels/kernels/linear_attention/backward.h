// The host interface of linear attention's backward pass: what backward_binding.cc may call and nothing more.
#pragma once

#include "linear_attention.h"

namespace tk::linear_attention {

// Gradients of sum(o * dout) + sum(final state * dfinal). What is a pointer is fp32 and dense.
struct gradients {
    tensor q, k, v, dout, dq, dk, dv;
    const float* dfinal;  // as the states that forward takes, or null
    float* dinitial;      // the same
    // (batch, heads, rows): of log decays, where there are some, or of dt. (batch, heads, 3): a batch's part of those
    // of rates (of decays a head, or A), biases and skips, the last where a head has one number. Both may be null.
    float *of_steps, *totals;
};

// fp32 elements of scratch that `backward` needs. of_decays: whether it is asked for of_steps and totals.
std::int64_t backward_scratch_elements(const problem&, bool of_decays, bool deterministic);

// Throws std::invalid_argument for problems that no kernel is built for. The scale is not below 0. `states` are the
// initial one and the final one that forward has found, which dfinal needs. `deterministic`: blocks that share q and k
// do not add to one sum, in any order, but leave sums of their own.
void backward(const problem&, const gradients&, const decays&, const states&, const skip&, float* scratch,
              bool deterministic, void* stream);

}  // namespace tk::linear_attention
