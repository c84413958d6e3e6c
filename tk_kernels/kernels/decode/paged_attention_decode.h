// The host interface of paged decode with grouped heads: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>
#include <string>

#include "planned.h"
#include "tk/tensor.h"

namespace tk::paged_attention_decode {

struct problem {
    const void* q;  // (batch, new_tokens, heads, dim), or as q_by_head says
    tensor k, v;    // of each page: (pages, kv_heads, page, dim)
    void* out;      // the same
    float* lse;     // (batch, heads, new_tokens), or none
    const int* table;
    std::int64_t table_stride;
    std::int64_t batch, new_tokens, heads, kv_heads, pages, page, table_width;
    int dim;  // 64 or 128
    double scale;
    // Rows of q, and of out, by (batch, heads, new_tokens), and not by (batch, new_tokens, heads).
    bool q_by_head = false, out_by_head = false;
};

using decode_plan::planned;

// Ints of `planned::words`.
std::int64_t words_for(int counters);

// The wait of an earlier launch that never ended, in a sentence; empty where every wait has ended.
std::string stalled();

// out = softmax(scale q k^T) v, causal among the new tokens. `stream` is a cudaStream_t (ignored by the cpu target).
// Throws std::invalid_argument for what no kernel is built for, and for more blocks than the device holds at once.
void launch(const problem&, const planned&, void* stream);

}  // namespace tk::paged_attention_decode
