// The host interface of MLA decode: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>
#include <string>

#include "planned.h"
#include "tk/tensor.h"

namespace tk::mla_decode {

constexpr int latent = 512, rotary = 64, width = latent + rotary;

struct problem {
    const void* q;  // (batch, new_tokens, heads, width)
    tensor cache;   // (pages, one head, page, width)
    void* out;      // (batch, new_tokens, heads, latent)
    float* lse;     // (batch, heads, new_tokens), or none
    const int* table;
    std::int64_t table_stride;
    std::int64_t batch, new_tokens, heads, pages, page, table_width;
    double scale;
};

using decode_plan::planned;

// Ints of `planned::words`.
std::int64_t words_for(int counters);

// The wait of an earlier launch that never ended, in a sentence; empty where every wait has ended.
std::string stalled();

// out = softmax(scale q k^T) v, causal among the new tokens; k is the cache, v its latent columns. `stream` is a
// cudaStream_t (ignored by the cpu target). Throws std::invalid_argument for what no kernel is built for, and for more
// blocks than the device holds at once.
void launch(const problem&, const planned&, void* stream);

}  // namespace tk::mla_decode
