// The host interface of Based's backward pass: what backward_binding.cc may call and nothing more.
#pragma once

#include "based.h"

namespace tk::based {

// Gradients of sum(out * dout), and of what the state after the last row is used for. out is read to normalise alone.
struct gradients {
    tensor q, k, v, dout, out, dq, dk, dv;
    // fp32, as the state and the pairs that `launch` gives, or null: what a feature of k times v has to be multiplied
    // with, divided by the factor that q's side has; the pairs' rows are 16 x 16, symmetric, and one row of 16.
    const float *dstate, *dpairs;
};

// scratch: 2 * batch * heads * rows floats, to normalise alone.
void backward(const problem&, const gradients&, float* scratch, void* stream);

}  // namespace tk::based
