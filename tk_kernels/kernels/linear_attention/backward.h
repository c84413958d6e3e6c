// The host interface of linear attention's backward pass: what backward_binding.cc may call and nothing more.
#pragma once

#include "linear_attention.h"

namespace tk::linear_attention {

// The gradient of q or k. Where one block has all heads that share a group it is rounded to bf16, (batch, groups, rows,
// key_dim); else there are sums in fp32, dense, (batch, slots, rows, key_dim), that add up to a group's: as many of a
// group as the caller has made room for. One slot a group is added to by several blocks, and is zero at first.
struct shared_gradient_of {
    tensor rounded;
    float* sums;  // or null
    std::int64_t slots;
};

// Gradients of sum(o * dout) + sum(final state * dfinal).
struct gradients {
    tensor q, k, v, dout, dv;
    shared_gradient_of dq, dk;
    const float* dfinal;  // fp32, dense, as the states that forward takes, or null
    float* dinitial;      // the same
    // fp32 (batch, units, 4, rows), or null: of each unit, 64 columns of a head's values, and step q . dq, k . dk,
    // v . dv / w, v . dout (this one where there is a skip). What decays, weights and a skip have as gradients is made
    // of them.
    float* dots;
};

// Units of a block, where so many share a group: one or two.
int units_of_block(const problem&);

// Throws std::invalid_argument for problems that no kernel is built for. The scale is above 0. Of `states` only the
// initial one is read.
void backward(const problem&, const gradients&, const decays&, const states&, const skip&, void* stream);

}  // namespace tk::linear_attention
