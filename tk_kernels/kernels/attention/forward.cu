// Which forward kernel a problem gets, and the kernels that are built.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "forward.cuh"

namespace tk::attention {
namespace {

// Keys and values that blocks which run at the same time may read without missing the L2 cache: half of it.
constexpr int64_t band_bytes = limits::l2_bytes / 2;

// lse of so many rows of a problem, from one on.
row_values lse_of(float* lse, const problem& p, int64_t first, int64_t count) {
    return {lse + first, p.batch, p.heads, 1, count, p.rows, p.rows, p.heads * p.rows};
}
tensor rows_from(tensor t, int64_t first) {
    t.data = static_cast<bf16*>(t.data) + first * t.row_stride;
    return t;
}

struct call : problem_view {
    const tensor &q, &k, &v, &out;
    const row_values& lse;
    int* counter;
    int order;  // as in the options
    void* stream;

    // The order of blocks of so many rows. Where queries see the keys before them, the last rows of many heads come
    // first; else all rows of the heads that share keys.
    row_bands bands(int rows) const {
        const int64_t group = p.heads / p.heads_kv, heads = p.batch * p.heads;
        const int64_t in_l2 = std::max<int64_t>(1, band_bytes / (p.rows_kv * p.dim * 4));
        const int64_t band = order == 0 ? 1 : order == 1 ? heads : p.causal ? in_l2 * group : group;
        return {int(heads), int(divide_up(p.rows, rows)), int(std::min(band, heads))};
    }
    int tasks(int rows) const { return int(p.batch * p.heads * divide_up(p.rows, rows)); }

    template <typename Kernel> typename Kernel::globals globals() const {
        const float scale = p.scale == 0 ? 1e-30f : p.scale * log2_e;  // -inf times 0 would be no number
        return {queries(q),
                keys(k),
                keys(v),
                queries(out),
                lse,
                scale,
                visible(),
                bands(Kernel::rows),
                divisor(int(p.heads)),
                divisor(int(p.heads / p.heads_kv)),
                {tasks(Kernel::rows), counter}};
    }

    // Time of the fullest multiprocessor, for so many consumers and their speed beside three (README.md): three wait
    // less for one another, two leave fewer multiprocessors idle where there are few rows, and walk over less that a
    // window hides from most of them.
    double cost(int consumers, double speed) const {
        const double rounds = double(tasks(64 * consumers)) / multiprocessors();
        const int64_t tiles = p.window > 0 ? divide_up(p.window - 1, 128) + divide_up(64 * consumers, 128) : 1;
        return (p.causal ? std::max(rounds, 2.0) : std::ceil(rounds)) * consumers * tiles / speed;
    }

    template <config C> void pipelined() const {
        using kernel = forward_kernel<C>;
        const auto g = globals<kernel>();
        kittens::launch<clear_queue>({1, 0}, stream, {g.queue});
        launch_queue<lcf_flow<kernel>>(g.queue, stream, g);
    }
    template <int Dim> void synchronous(int blocks_per_sm) const {
        using kernel = synchronous_kernel<Dim>;
        // A block takes so much shared memory that no more of them fit.
        const int bytes = std::max(kernel::shared_bytes, limits::shared_bytes_of(blocks_per_sm) - 1024);
        if constexpr (!windowed)  // no figure has one
            kittens::launch<kernel>({tasks(kernel::rows), std::min(bytes, limits::shared_bytes)}, stream,
                                    globals<kernel>());
    }
};

template <int Dim> void empty_rows(const problem& p, const tensor& out, float* lse, int64_t rows, void* stream) {
    using kernel = empty_rows_kernel<Dim>;
    const row_grid grid(p.heads, rows, kernel::rows);
    kittens::launch<kernel>({int(grid.tasks(p.batch)), 0}, stream,
                            {{out, p.batch, p.heads, rows, p.dim}, lse_of(lse, p, 0, rows), grid});
}

}  // namespace

// The first rows of a problem may see no key; what is left of it is one in which all rows see some.
void forward(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* lse,
             const options& o, int* counter, void* stream) {
    require_counts("attention", 256, {p.rows, p.rows_kv, p.batch * p.heads * (p.rows / 64 + 1)});
    if (o.blocks_per_sm > 0 && o.synchronous != 1)
        throw std::invalid_argument("blocks_per_sm: belongs to the synchronous kernel; set synchronous");
    if (o.synchronous == 1 && p.dim != 64)
        throw std::invalid_argument("synchronous: is built for head dim 64 alone, the paper's occupancy figure");
    const int64_t empty = p.causal ? std::max<int64_t>(0, p.rows - p.rows_kv) : 0;
    if (empty > 0) (p.dim == 128 ? empty_rows<128> : empty_rows<64>)(p, out, lse, empty, stream);
    problem seeing = p;
    seeing.rows -= empty;
    const tensor own_q = rows_from(q, empty), own_out = rows_from(out, empty);
    const row_values own_lse = lse_of(lse, p, empty, seeing.rows);
    const call c{{seeing}, own_q, k, v, own_out, own_lse, counter, o.order, stream};
    if (o.synchronous == 1) c.synchronous<64>(o.blocks_per_sm < 1 ? 4 : std::min(o.blocks_per_sm, 4));
    else if (p.dim == 128)
        c.pipelined<config{.dim = 128, .keys = 128, .consumers = 2, .stages = 5, .hold_queries = true}>();
    else if (c.cost(3, 1) <= c.cost(2, 0.85))
        c.pipelined<config{.dim = 64, .keys = 128, .consumers = 3, .stages = 8}>();
    else c.pipelined<config{.dim = 64, .keys = 128, .consumers = 2, .stages = 8, .hold_queries = true}>();
}

}  // namespace tk::attention
