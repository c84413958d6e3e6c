// Which kernel a problem gets: by how much of a tile of keys lies in one page.
#pragma once

#include "mla_decode.cuh"

#include <stdexcept>
#include <string>

namespace tk::mla_decode {

template <int PageKeys, typename Recorder>
void launch_of(const problem& p, const planned& s, void* stream, const typename Recorder::where& to) {
    using kernel = kernel<PageKeys, Recorder>;
    using globals = typename kernel::globals;
    const std::int64_t of_sequence = p.new_tokens * p.heads;
    const float scale = p.scale == 0 ? 1e-30f : float(p.scale * log2_e);  // -inf times 0 would be no number
    const globals g{to,
                    {static_cast<bf16*>(const_cast<void*>(p.q)), p.batch, 1, of_sequence, width},
                    {static_cast<bf16*>(p.out), 1, 1, p.batch * of_sequence, latent},
                    {p.k, p.pages, 1, p.page, width},
                    {p.lse, 1, 1, 1, p.lse == nullptr ? 0 : p.batch * of_sequence},
                    {s.partial, 1, s.slots, s.rows_per_tile, latent},
                    {s.partial_weights, 1, 2, s.slots, s.rows_per_tile},
                    {s.buffer + plan::header_ints, 1, 1, std::int64_t(s.blocks) * s.capacity, plan::instruction_ints},
                    {p.table, 1, 1, p.batch, p.table_width, p.table_stride, 0, 0},
                    {p.lengths, 1, 1, p.lengths == nullptr ? 0 : p.batch, 1, p.lengths_stride, 0, 0},
                    {s.words, s.counters},
                    scale,
                    s.capacity,
                    int(p.new_tokens),
                    divisor(int(p.heads)),
                    divisor(int(p.page))};
    launch_resident<kernel>({s.blocks, kernel::shared_bytes}, stream, g);
}

// With what `Recorder` records, into `to`.
template <typename Recorder>
void launch_with(const problem& p, const planned& s, void* stream, const typename Recorder::where& to) {
    require_counts("mla_decode", 2,
                   {p.batch * p.new_tokens * p.heads, std::int64_t(s.blocks) * s.capacity, p.pages, p.table_width});
    if (s.rows_per_tile != rows)
        throw std::invalid_argument("plan: got tiles of " + std::to_string(s.rows_per_tile) + " rows, needs " +
                                    std::to_string(rows));
    if (p.page % 32 == 0) launch_of<32, Recorder>(p, s, stream, to);
    else launch_of<16, Recorder>(p, s, stream, to);
}

}  // namespace tk::mla_decode
