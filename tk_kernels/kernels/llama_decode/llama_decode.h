// The host interface of a Llama's token: what the binding may call and nothing more. Plain C++.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "layout.h"

namespace tk::llama_decode {

struct problem {
    // bf16. (layers, q k v heads' rows, width), (layers, width, queries), (layers, inner, width) twice, (layers, width,
    // inner), (vocabulary, width)
    void *qkv, *out, *gate, *up, *down, *head;
    // (layers, batch, kv_heads, positions, dim): all keys and values before each sequence's position; its own are
    // appended.
    void *k, *v;
    const void *embedding,
        *norms;  // (vocabulary, width); of attention and MLP in turn, and the last: (2 layers + 1, width)
    const void *bias, *head_norms;  // of q k v, (layers, rows); of queries and keys in turn, (2 layers, dim); or none
    const float *cosine, *sine;     // (positions, dim / 2)
    const int *positions, *tokens;  // (batch): where each sequence's token stands, and which it is
    float* logits;                  // (batch, vocabulary)
    int* chosen;                    // (batch, rounds): the tokens that follow; or none, of one round
    float* scratch;                 // shape::floats()
    const int* program;             // with its header, in the device's memory
    int* words;                     // kittens::program::words_for(counters); zeros, and left so
    std::int64_t cached;            // positions of the cache
    double epsilon;
    int rounds;                     // tokens of each sequence
    int in_flight, in_flight_head;  // pages at most that a block has asked for
};

// So many tokens of each sequence, the largest logit's each time: the last one's logits, and keys and values appended.
// `own` is the header, in the host's memory. Throws std::invalid_argument for a shape that no kernel is built for, for
// more blocks than the device holds at once, and for tokens that more blocks choose than have some of the vocabulary.
void launch(const problem&, std::span<const std::int32_t> own, void* stream);
// Why no kernel takes the shape, in a sentence, or nothing.
std::string refusal(const shape&);
// The wait of an earlier launch that never ended, in a sentence; empty where every wait has ended.
std::string stalled();

}  // namespace tk::llama_decode
