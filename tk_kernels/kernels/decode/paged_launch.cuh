// Which kernel a problem gets: by its head dim, by how much of a tile of keys lies in one page, and by the plan's rows
// of a tile.
#pragma once

#include "tiles.cuh"
#include "paged_attention_decode.cuh"

#include <stdexcept>
#include <string>

namespace tk::paged_attention_decode {

template <typename Recorder> struct call {
    const problem& p;
    const planned& s;
    void* stream;
    typename Recorder::where to;

    template <int Dim, int PageKeys> void of_pages() const {
        if (s.rows_per_tile <= plan::gqa_rows_per_tile) run<Dim, PageKeys, 1>();
        else if constexpr (plan::gqa_most_rows_per_tile > plan::gqa_rows_per_tile) run<Dim, PageKeys, 2>();
    }
    template <int Dim, int PageKeys, int Groups> void run() const {
        using kernel = paged_kernel<Dim, PageKeys, Groups, Recorder>;
        using globals = typename kernel::globals;
        const std::int64_t rows = p.batch * p.new_tokens * p.heads;
        const auto cache = [&](const tensor& t) { return typename kernel::cache(t, p.pages, p.kv_heads, p.page, Dim); };
        const float scale = p.scale == 0 ? 1e-30f : float(p.scale * log2_e);  // -inf times 0 would be no number
        const auto order = [&](bool by_head) ->
            typename kernel::row_order { return {by_head ? 1 : int(p.heads), by_head ? int(p.new_tokens) : 1}; };
        const globals g{
            to,
            {static_cast<bf16*>(const_cast<void*>(p.q)), 1, 1, rows, Dim},
            {static_cast<bf16*>(p.out), 1, 1, rows, Dim},
            order(p.q_by_head),
            order(p.out_by_head),
            cache(p.k),
            cache(p.v),
            {p.lse, 1, 1, 1, p.lse == nullptr ? 0 : rows},
            {s.partial, 1, s.slots, s.rows_per_tile, Dim},
            {s.partial_weights, 1, 2, s.slots, s.rows_per_tile},
            {s.buffer + plan::header_ints, 1, 1, std::int64_t(s.blocks) * s.capacity, plan::instruction_ints},
            {p.table, 1, 1, p.batch, p.table_width, p.table_stride, 0, 0},
            {p.lengths, 1, 1, p.lengths == nullptr ? 0 : p.batch, 1, p.lengths_stride, 0, 0},
            {s.words, s.counters},
            scale,
            s.capacity,
            int(p.new_tokens),
            int(p.heads),
            divisor(int(p.heads / p.kv_heads)),
            divisor(int(p.page))};
        launch_resident<kernel>({s.blocks, kernel::shared_bytes}, stream, g);
    }
    template <int Dim> void of_dim() const {
        // Where a page is a whole sequence no tile lies in two, and the copy engine fills what lies behind with zeros.
        if (p.page % 64 == 0 || p.table_width == 1) of_pages<Dim, 64>();
        else if (p.page == 32) of_pages<Dim, 32>();
        else of_pages<Dim, 16>();
    }
};

// With what `Recorder` records, into `to`.
template <typename Recorder>
void launch_with(const problem& p, const planned& s, void* stream, const typename Recorder::where& to) {
    require_counts("paged_attention_decode", 2,
                   {p.batch * p.new_tokens * p.heads, std::int64_t(s.blocks) * s.capacity, p.pages, p.table_width});
    if (s.rows_per_tile > plan::gqa_most_rows_per_tile)
        throw std::invalid_argument("plan: got tiles of " + std::to_string(s.rows_per_tile) +
                                    " rows, the kernels that this device runs take up to " +
                                    std::to_string(plan::gqa_most_rows_per_tile) + "; make the plan for this device");
    const call<Recorder> c{p, s, stream, to};
    if (p.dim == 64) c.template of_dim<64>();
    else c.template of_dim<128>();
}

}  // namespace tk::paged_attention_decode
