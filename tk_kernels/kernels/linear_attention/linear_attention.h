// The host interface of linear attention: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

#include "tk/tensor.h"

namespace tk::linear_attention {

using tk::tensor;

// state_t = exp(a_t) state_{t-1} + w_t k_t (x) v_t; o_t = scale q_t . state_t (+ skip v_t). Head h reads q and k of
// group h / (heads / groups).
struct problem {
    std::int64_t batch, heads, groups, rows;
    int key_dim, value_dim;  // each 64 or 128
    float scale;
};

// Where a and w come from, all in fp32 but for dt.
struct decays {
    enum source { none, per_head, per_step, from_dt } from = none;  // w = 1 but for from_dt
    const float* rate = nullptr;                                    // per_head: a (heads); from_dt: A (heads), a = A w
    const float* log_decay = nullptr;                               // per_step: a (batch, heads, rows), dense
    const void* dt = nullptr;  // from_dt: (batch, rows, heads), unit stride along the heads
    std::int64_t dt_batch_stride = 0, dt_row_stride = 0;
    bool dt_is_bf16 = false;
    const float* dt_bias = nullptr;  // (heads) or null
    bool softplus = false;           // w = softplus(dt + bias), else max(0, dt + bias)
};

// fp32, dense, or null. A state is (batch, heads, key_dim, value_dim), or with the last two dimensions exchanged.
struct states {
    const float* initial = nullptr;
    float* final = nullptr;
    bool values_first = false;
};

// (heads) or (heads, value_dim), fp32, dense, or null.
struct skip {
    const float* weight = nullptr;
    bool per_column = false;
};

// How a problem is run. Values below 1 mean "choose by shape".
struct options {
    int segments = -1;  // parts of a sequence that are computed at the same time
};

// fp32 elements of scratch that `forward` needs.
std::int64_t scratch_elements(const problem&, const options&);

// Throws std::invalid_argument for problems that no kernel is built for.
void forward(const problem&, const tensor& q, const tensor& k, const tensor& v, const tensor& out, const decays&,
             const states&, const skip&, float* scratch, const options&, void* stream);

}  // namespace tk::linear_attention
