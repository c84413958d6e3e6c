// The backward pass by warps: its kernels in turn, and the scratch that they share.
#include "by_warps_backward.cuh"

#include <algorithm>

#include "backward_call.cuh"

namespace tk::attention {
namespace {

template <int Dim> struct call : backward_call<Dim> {
    using backward_call<Dim>::p, backward_call<Dim>::x, backward_call<Dim>::stream, backward_call<Dim>::lse;
    using backward_call<Dim>::delta, backward_call<Dim>::sums;
    using backward_call<Dim>::queries, backward_call<Dim>::keys, backward_call<Dim>::visible;

    query_values of_queries(const padded_values<Dim>& v) const { return {v.data, p.batch, p.heads, 1, this->length}; }
    template <bool SumsDq> void by_keys() const {
        using kernel = keys_by_warps<Dim, SumsDq>;
        const int blocks = int(divide_up(p.rows_kv, kernel::keys));
        kittens::launch<kernel>(
            {int(p.batch * p.heads_kv) * blocks, kernel::shared_bytes}, stream,
            {queries(x.q), queries(x.dout), keys(x.k), keys(x.v), of_queries(lse), of_queries(delta), sums, keys(x.dk),
             keys(x.dv), p.scale, visible(), divisor(blocks), divisor(int(p.heads_kv)), int(p.heads / p.heads_kv),
             int(divide_up(p.rows, kernel::queries))});
    }
    void by_queries() const {
        using kernel = queries_by_warps<Dim>;
        const row_grid grid(p.heads, p.rows, kernel::queries);
        launch_all<kernel>(grid.tasks(p.batch), stream,
                           {queries(x.q), queries(x.dout), keys(x.k), keys(x.v), of_queries(lse), of_queries(delta),
                            queries(x.dq), p.scale, visible(), grid, int(p.heads / p.heads_kv)});
    }
    task_queue queue() const { return {0, this->counter()}; }
};

}  // namespace

int64_t backward_scratch(const problem& p, bool deterministic) { return scratch_elements(p, deterministic); }

void backward(const problem& p, const gradients& x, void* stream) { run_backward<call>(p, x, stream); }

}  // namespace tk::attention
