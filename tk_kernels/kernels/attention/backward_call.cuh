// The host side that both backward passes share: their scratch, and the kernel over rows that comes first.
#pragma once

#include <algorithm>

#include "backward_rows.cuh"

namespace tk::attention {

// Values that the scratch has for the rows of a head of queries.
inline int64_t padded(const problem& p) { return divide_up(p.rows, 128) * 128; }

// fp32 elements of scratch: lse in base 2, delta, the sums of dQ where there are any, a counter.
inline int64_t scratch_elements(const problem& p, bool deterministic) {
    return p.batch * p.heads * padded(p) * (2 + (deterministic ? 0 : p.dim)) + 1;
}

template <int Dim> struct backward_call : problem_view {
    const gradients& x;
    void* stream;
    const int64_t length = padded(p), elements = p.batch * p.heads * length;
    const padded_values<Dim> lse{x.scratch, p.batch, p.heads, 1, length};
    const padded_values<Dim> delta{x.scratch + elements, p.batch, p.heads, 1, length};
    const packed_sums<Dim> sums{x.scratch + (x.deterministic ? 0 : 2 * elements), p.batch, p.heads, length / 16,
                                16 * Dim};

    int* counter() const { return reinterpret_cast<int*>(x.scratch + scratch_elements(p, x.deterministic) - 1); }
    void prepare_rows(const task_queue& cleared) const {
        using kernel = rows_kernel<Dim>;
        const row_grid grid(p.heads, length, kernel::rows);
        const row_values natural(const_cast<float*>(x.lse), p.batch, p.heads, 1, p.rows);
        launch_all<kernel>(
            grid.tasks(p.batch), stream,
            {queries(x.out), queries(x.dout), natural, lse, delta, sums, !x.deterministic, cleared, grid});
    }
};

// The kernels in turn. A Call derives from backward_call and has `queue`, which rows_kernel clears, by_keys<SumsDq> and
// by_queries.
template <template <int> typename Call> void run_backward(const problem& p, const gradients& x, void* stream) {
    require_counts("attention", 256, {p.rows, p.rows_kv, p.batch * p.heads * (std::max(p.rows, p.rows_kv) / 64 + 2)});
    const auto run = [&]<int Dim>(const Call<Dim>& call) {
        call.prepare_rows(call.queue());
        if (x.deterministic) {
            call.template by_keys<false>();
            call.by_queries();
        } else {
            call.template by_keys<true>();
            round_sums<Dim>(call.sums, x.dq, p.rows, p.scale, stream);
        }
    };
    if (p.dim == 64) run(Call<64>{{{p}, x, stream}});
    else run(Call<128>{{{p}, x, stream}});
}

}  // namespace tk::attention
