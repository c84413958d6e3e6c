// The backward pass: its kernels in turn, and the scratch that they share.
#include <algorithm>

#include "backward.cuh"
#include "backward_call.cuh"
#include "backward_queries.cuh"

namespace tk::attention {
namespace {

template <int Dim> struct call : backward_call<Dim> {
    using backward_call<Dim>::p, backward_call<Dim>::x, backward_call<Dim>::stream, backward_call<Dim>::lse;
    using backward_call<Dim>::delta, backward_call<Dim>::sums, backward_call<Dim>::counter;
    using backward_call<Dim>::queries, backward_call<Dim>::keys, backward_call<Dim>::visible;

    template <int Queries, int Keys> operands<Dim, Queries, Keys> read() const {
        return {queries(x.q), queries(x.dout), keys(x.k), keys(x.v), lse, delta};
    }
    // Blocks of keys. Causal tasks differ in length: the longest of several heads come first. A head's share of the L2:
    // Q, dO, dQ.
    tile_bands order() const {
        const int heads = int(p.batch * p.heads_kv), blocks = int(divide_up(p.rows_kv, keys_kernel<Dim, true>::keys));
        const int64_t head_bytes = p.rows * p.heads / p.heads_kv * Dim * (2 + 2 + 4);
        return {heads, blocks, p.causal ? dividing_band(heads, head_bytes) : 1};
    }
    task_queue queue() const { return {order().tiles(), counter()}; }
    template <bool SumsDq> void by_keys() const {
        using kernel = keys_kernel<Dim, SumsDq>;
        launch_queue<lcf_queue<kernel>>(
            queue(), stream,
            {read<kernel::queries, kernel::keys>(), sums, keys(x.dk), keys(x.dv), p.scale, visible(), order(), queue(),
             divisor(int(p.heads_kv)), int(p.heads / p.heads_kv), int(divide_up(p.rows, kernel::queries))});
    }
    void by_queries() const {
        using kernel = queries_kernel<Dim>;
        const row_grid grid(p.heads, p.rows, kernel::rows);
        const int tasks = int(grid.tasks(p.batch));
        launch_all<lcf_stream<kernel>>(tasks, stream,
                                       {read<kernel::rows, kernel::keys>(), queries(x.dq), p.scale, visible(), grid,
                                        int(p.heads / p.heads_kv), tasks});
    }
};

}  // namespace

int64_t backward_scratch(const problem& p, bool deterministic) { return scratch_elements(p, deterministic); }

void backward(const problem& p, const gradients& x, void* stream) { run_backward<call>(p, x, stream); }

}  // namespace tk::attention
