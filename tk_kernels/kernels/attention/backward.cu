// The backward pass: its kernels in turn, and the scratch that they share.
#include <algorithm>

#include "backward.cuh"
#include "backward_queries.cuh"

namespace tk::attention {
namespace {

constexpr int64_t padding = 128;                // rows of the values beside a head's queries
constexpr int64_t l2_bytes = 32 * 1024 * 1024;  // of what the tasks that run together read and sum

int64_t padded(const problem& p) { return (p.rows + padding - 1) / padding * padding; }
int blocks(int64_t rows, int block) { return int((rows + block - 1) / block); }

struct call {
    const problem& p;
    const tensor &q, &k, &v, &out;
    const float* lse;
    const tensor &dout, &dq, &dk, &dv;
    float* scratch;
    bool deterministic;
    void* stream;

    visible_keys visible() const { return {int(p.rows_kv), int(p.rows_kv - p.rows), p.causal}; }
    template <typename... Tiles> heads_of<Tiles...> of_queries(const tensor& t) const {
        return all_heads<Tiles...>(t, p.batch, p.heads, p.rows, p.dim);
    }
    template <typename... Tiles> heads_of<Tiles...> of_keys(const tensor& t) const {
        return all_heads<Tiles...>(t, p.batch, p.heads_kv, p.rows_kv, p.dim);
    }
    // The scratch: lse in base 2, delta, and the sums of dQ.
    template <int Dim> auto row_values_at(int which) const {
        const int64_t elements = p.batch * p.heads * padded(p);
        return typename backward_tiles<Dim>::row_values_of(scratch + which * elements, int(p.batch), int(p.heads), 1,
                                                           int(padded(p)));
    }
    template <int Dim> auto sums_of_dq() const {
        float* at = deterministic ? scratch : scratch + 2 * p.batch * p.heads * padded(p);
        return typename backward_tiles<Dim>::sums(at, int(p.batch), int(p.heads), int(padded(p) / 16), 16 * Dim);
    }

    row_grid grid(int64_t rows, int block) const { return {divisor(int(p.heads)), divisor(blocks(rows, block))}; }

    // One block of rows a block of the grid.
    template <typename Kernel> void by_rows(const typename Kernel::globals& globals) const {
        kittens::launch<Kernel>({int(p.batch * p.heads) * globals.grid.row_blocks.value, Kernel::shared_bytes}, stream,
                                globals);
    }
    template <int Dim> void prepare_rows() const {
        using kernel = rows_kernel<Dim>;
        using tile = typename kernel::tile;
        by_rows<kernel>({of_queries<tile>(out),
                         of_queries<tile>(dout),
                         {const_cast<float*>(lse), int(p.batch), int(p.heads), 1, int(p.rows)},
                         row_values_at<Dim>(0),
                         row_values_at<Dim>(1),
                         sums_of_dq<Dim>(),
                         !deterministic,
                         grid(padded(p), kernel::rows)});
    }
    template <int Dim> void round_dq() const {
        using kernel = round_kernel<Dim>;
        by_rows<kernel>(
            {sums_of_dq<Dim>(), of_queries<typename kernel::strip>(dq), p.scale, grid(p.rows, kernel::rows)});
    }
    template <int Dim, bool SumsDq> void by_keys() const {
        using kernel = keys_kernel<Dim, SumsDq>;
        using pipeline = lcf_stream<kernel>;
        using queries = st_bf<kernel::queries, Dim>;
        using keys = st_bf<kernel::keys, Dim>;
        using strip = typename kernel::strip;
        // Causal tasks differ in length: the longest of several heads come first.
        const int64_t head_bytes = p.rows * p.heads / p.heads_kv * Dim * (2 + 2 + 4);
        const int heads_together = p.causal ? int(std::clamp<int64_t>(l2_bytes / head_bytes, 2, 1024)) : 1;
        const tile_bands order(int(p.batch * p.heads_kv), blocks(p.rows_kv, kernel::keys), heads_together);
        kittens::launch<pipeline>(
            {order.tiles(), pipeline::shared_bytes}, stream,
            {of_queries<queries>(q), of_queries<queries>(dout), of_keys<keys>(k), of_keys<keys>(v),
             row_values_at<Dim>(0), row_values_at<Dim>(1), sums_of_dq<Dim>(), of_keys<strip>(dk), of_keys<strip>(dv),
             p.scale, visible(), order, divisor(int(p.heads_kv)), int(p.heads / p.heads_kv),
             blocks(p.rows, kernel::queries)});
    }
    template <int Dim> void by_queries() const {
        using kernel = queries_kernel<Dim>;
        using pipeline = lcf_stream<kernel>;
        using rows = st_bf<kernel::rows, Dim>;
        using keys = st_bf<kernel::keys, Dim>;
        const row_grid places = grid(p.rows, kernel::rows);
        const int tasks = int(p.batch * p.heads) * places.row_blocks.value;
        kittens::launch<pipeline>({tasks, pipeline::shared_bytes}, stream,
                                  {of_queries<rows>(q), of_queries<rows>(dout), of_keys<keys>(k), of_keys<keys>(v),
                                   row_values_at<Dim>(0), row_values_at<Dim>(1), of_queries<typename kernel::strip>(dq),
                                   p.scale, visible(), places, int(p.heads / p.heads_kv), tasks});
    }
    template <int Dim> void run() const {
        prepare_rows<Dim>();
        if (deterministic) {
            by_keys<Dim, false>();
            by_queries<Dim>();
        } else {
            by_keys<Dim, true>();
            round_dq<Dim>();
        }
    }
};

}  // namespace

int64_t backward_scratch(const problem& p, bool deterministic) {
    return p.batch * p.heads * padded(p) * (2 + (deterministic ? 0 : p.dim));
}

void backward(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, const float* lse,
              const tensor& dout, const tensor& dq, const tensor& dk, const tensor& dv, float* scratch,
              bool deterministic, void* stream) {
    require_counts("attention", 256, {p.rows, p.rows_kv, p.batch * p.heads * (std::max(p.rows, p.rows_kv) / 64 + 2)});
    const call c{p, q, k, v, out, lse, dout, dq, dk, dv, scratch, deterministic, stream};
    if (p.dim == 64) c.run<64>();
    else c.run<128>();
}

}  // namespace tk::attention
