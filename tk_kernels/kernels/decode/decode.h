// The host interface of both decode kernels: what the bindings may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>
#include <string>

#include "layout.h"
#include "tk/tensor.h"

namespace tk::decode_plan {

struct problem {
    const void* q;  // (batch, new_tokens, heads, dim of k), or as q_by_head says
    tensor k, v;    // of each page: (pages, kv_heads, page, dim). MLA: k alone, of one head, whose latent part is v
    void* out;      // (batch, new_tokens, heads, dim of v), or as out_by_head says
    float* lse;     // (batch, heads, new_tokens), or none
    const int* table;
    std::int64_t table_stride;
    std::int64_t batch, new_tokens, heads, kv_heads, pages, page, table_width;
    int dim;  // grouped heads: 64 or 128
    double scale;
    const int* lengths = nullptr;  // the keys of each sequence, where the kernel is to compare the plan's with them
    std::int64_t lengths_stride = 1;
    // Grouped heads: rows of q, and of out, by (batch, heads, new_tokens), and not by (batch, new_tokens, heads).
    bool q_by_head = false, out_by_head = false;
};

// A plan (layout.h) in the device's memory, and the scratch that it is for: `words` of counters, which are zero, and
// for each slot `rows_per_tile` rows of results, and of their weights the largest score and the sum.
struct planned {
    const int* buffer;
    int blocks, capacity, counters, slots, rows_per_tile;
    int* words;
    float *partial, *partial_weights;
};

// The wait of an earlier launch that never ended, in a sentence; empty where every wait has ended.
std::string stalled();

}  // namespace tk::decode_plan

// `launch`: out = softmax(scale q k^T) v, causal among the new tokens. `stream` is a cudaStream_t (ignored by the cpu
// target). Throws std::invalid_argument for what no kernel is built for, and for more blocks than the device holds at
// once.
namespace tk::mla_decode {

constexpr int latent = 512, rotary = 64, width = latent + rotary;

using decode_plan::planned, decode_plan::problem;
void launch(const problem&, const planned&, void* stream);

}  // namespace tk::mla_decode
namespace tk::paged_attention_decode {

using decode_plan::planned, decode_plan::problem;
void launch(const problem&, const planned&, void* stream);

}  // namespace tk::paged_attention_decode
