// Which kernel a shape gets, and its launch.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>

#include "llama_decode.h"
#include "token.cuh"

namespace tk::llama_decode {

template <typename Kernel, typename Recorder = unrecorded>
void launch_of(const problem& p, std::span<const std::int32_t> own, void* stream,
               const typename Recorder::where& to = {}) {
    using whole = interpreter<Kernel, Recorder>;
    const shape s(own.data());
    const int blocks = own[header::blocks], capacity = own[header::capacity], counters = own[header::counters];
    const auto data = [](const void* pointer) { return static_cast<bf16*>(const_cast<void*>(pointer)); };
    const std::int64_t L = s.layers, B = s.batch, W = s.width;
    float* const added = p.scratch + s.projected_floats();
    float* const partial = added + s.added_floats();
    float* const lse = partial + s.partials() * s.dim;
    float* const act = lse + s.logarithms();
    float* const best = act + s.act_floats();
    const typename Kernel::globals g{{to},
                                     {data(p.qkv), 1, L, s.projected(), W},
                                     {data(p.out), 1, L, W, s.queries()},
                                     {data(p.gate), 1, L, s.inner, W},
                                     {data(p.up), 1, L, s.inner, W},
                                     {data(p.down), 1, L, W, s.inner},
                                     {data(p.head), 1, 1, s.vocabulary, W},
                                     {data(p.k), L * B, s.kv_heads, p.cached, s.dim},
                                     {data(p.v), L * B, s.kv_heads, p.cached, s.dim},
                                     {data(p.embedding), 1, 1, s.vocabulary, W},
                                     {data(p.norms), 1, 1, 2 * L + 1, W},
                                     {data(p.bias), 1, 1, p.bias == nullptr ? 0 : L, s.projected()},
                                     {data(p.head_norms), 1, 1, p.head_norms == nullptr ? 0 : 2 * L, s.dim},
                                     {p.cosine, 1, 1, p.cached, s.dim / 2},
                                     {p.sine, 1, 1, p.cached, s.dim / 2},
                                     {p.positions, 1, 1, 1, B},
                                     {p.tokens, 1, 1, 1, B},
                                     {p.scratch, 1, L * s.projected_slots, B, s.projected()},
                                     {added, 1, 2 * L * s.added_slots, B, W},
                                     {partial, 1, 1, s.partials(), s.dim},
                                     {lse, 1, 1, 1, s.partials()},
                                     {reinterpret_cast<bf16*>(act), 1, L, B, s.inner},
                                     {act, 1, L, B, s.inner / 2},
                                     {best, 1, 1, 1, s.best_floats()},
                                     {best + s.best_floats(), 1, 1, 1, s.best_floats()},
                                     {reinterpret_cast<float*>(p.chosen), 1, 1, 1, B * p.rounds},
                                     {p.logits, 1, 1, B, s.vocabulary},
                                     {p.program + header_ints, 1, 1, std::int64_t(blocks) * capacity, instruction_ints},
                                     {p.words, counters},
                                     divisor(s.steps(opcode::qkv)),
                                     divisor(s.steps(opcode::out)),
                                     divisor(s.steps(opcode::down)),
                                     divisor(s.splits),
                                     capacity,
                                     s.layers,
                                     s.width,
                                     s.inner,
                                     s.heads,
                                     s.kv_heads,
                                     s.heads / s.kv_heads,
                                     s.projected_slots,
                                     s.added_slots,
                                     s.batch,
                                     p.in_flight,
                                     p.in_flight_head,
                                     p.rounds,
                                     p.bias != nullptr,
                                     p.head_norms != nullptr,
                                     p.chosen != nullptr,
                                     float(p.epsilon),
                                     log2_e / std::sqrt(float(s.dim))};
    launch_resident<whole>({blocks, whole::shared_bytes}, stream, g);
}

// Calls `with` with the kernel that takes a shape, as a type; heads of `Dim` columns.
template <int Dim, typename Recorder = unrecorded, typename With> void choose(const shape& s, const With& with) {
    const bool narrow = s.width <= 2048;
    if (s.batch == 1) narrow ? with(token<Dim, 1, 4, Recorder>()) : with(token<Dim, 1, 8, Recorder>());
    else narrow ? with(token<Dim, 8, 4, Recorder>()) : with(token<Dim, 4, 8, Recorder>());
}

}  // namespace tk::llama_decode
