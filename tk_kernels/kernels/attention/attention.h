// The host interface of attention: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

#include "tk/tensor.h"

namespace tk::attention {

using tk::tensor;

// S = scale q k^T; causal: query i sees the keys j <= i + rows_kv - rows; O = softmax(S) v. Query head h reads key head
// h / (heads / heads_kv). A query that sees no key has O = 0 and lse = -inf.
struct problem {
    std::int64_t batch, heads, heads_kv, rows, rows_kv;
    int dim;  // 64 or 128
    bool causal;
    float scale;
    std::int64_t window = 0;  // of the units attention_window*: a query sees the last so many of its causal keys
};

// How a problem is run. Negative values mean "choose by shape".
struct options {
    int order = -1;  // order of the blocks of queries: 0 rows of a head together, 1 one row of every head together
    int synchronous = -1;    // 1: no pipeline: a block loads, waits, computes, in turn; for the occupancy figure
    int blocks_per_sm = -1;  // of the synchronous kernel: 1 .. 4
};

// lse[b, h, i] = log sum_j exp S (natural), fp32 and dense. The counter is scratch of this call alone; it need not be
// initialised.
// Throws std::invalid_argument for options or problems that no kernel is built for.
void forward(const problem&, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* lse,
             const options&, int* counter, void* stream);

// The same of the unit attention_warps, without options.
void forward_by_warps(const problem&, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* lse,
                      void* stream);

// fp32 elements of scratch that `backward` needs, for its `scratch`.
std::int64_t backward_scratch(const problem&, bool deterministic);

// Gradients of sum(O * dout), from what `forward` read and wrote. dk and dv have heads_kv heads: the sum over the query
// heads that read them. The scratch need not be initialised. Deterministic: the sums are taken in a fixed order, so
// that a repetition is equal bit by bit.
struct gradients {
    tensor q, k, v, out;
    const float* lse;
    tensor dout, dq, dk, dv;
    float* scratch;
    bool deterministic;
};
void backward(const problem&, const gradients&, void* stream);

}  // namespace tk::attention
