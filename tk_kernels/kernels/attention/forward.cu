// Which forward kernel a problem gets, and the kernels that are built.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "forward.cuh"

namespace tk::attention {
namespace {

// Keys and values that stay in L2, or nearly: what misses costs less than an uneven last round.
constexpr int64_t l2_bytes = limits::l2_bytes * 5 / 4;
constexpr int64_t few_heads = 16;  // so few that blocks which run at the same time share keys and values anyway

struct call : problem_view {
    const tensor &q, &k, &v, &out;
    float* lse;
    bool interleaved;
    void* stream;

    template <typename Kernel> typename Kernel::globals globals(const row_schedule& order) const {
        const row_values sums(lse, p.batch, p.heads, 1, p.rows);
        const float scale = p.scale == 0 ? 1e-30f : p.scale * log2_e;  // -inf times 0 would be no number
        return {queries(q), keys(k),   keys(v), queries(out),          sums,
                scale,      visible(), order,   divisor(int(p.heads)), divisor(int(p.heads / p.heads_kv))};
    }
    // Causal rows differ in length: longest first where that leaves keys and values in L2, else by pairs of equal
    // length.
    row_schedule order(int rows, bool causal) const {
        const bool in_l2 = p.batch * p.heads_kv * p.rows_kv * p.dim * 4 <= l2_bytes;
        const bool longest = causal && !interleaved && (in_l2 || p.batch * p.heads <= few_heads);
        return row_schedule(int(p.batch * p.heads), int(divide_up(p.rows, rows)), causal, longest, interleaved);
    }

    // Time of the fullest multiprocessor, for so many consumers and their speed beside three (README.md): three wait
    // less for one another, two leave fewer multiprocessors idle where there are few rows.
    double cost(int consumers, double speed) const {
        const row_schedule s = order(64 * consumers, p.causal);
        const double rounds = double(s.tasks()) / multiprocessors();
        return (s.longest ? std::max(rounds, 2.0) : std::ceil(rounds) * (s.paired ? 2 : 1)) * consumers / speed;
    }

    template <config C> void pipelined() const {
        using kernel = forward_kernel<C>;
        const auto tasks = order(kernel::rows, p.causal);
        launch_tasks<lcf_stream<kernel>>(tasks.tasks(), stream, globals<kernel>(tasks));
    }
    template <int Dim> void synchronous(int blocks_per_sm) const {
        using kernel = synchronous_kernel<Dim>;
        const row_schedule tasks = order(kernel::rows, false);
        // A block takes so much shared memory that no more of them fit.
        const int bytes = std::max(kernel::shared_bytes, limits::shared_bytes_of(blocks_per_sm) - 1024);
        kittens::launch<kernel>({tasks.tasks(), std::min(bytes, limits::shared_bytes)}, stream, globals<kernel>(tasks));
    }
};

}  // namespace

void forward(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* lse,
             const options& o, void* stream) {
    require_counts("attention", 256, {p.rows, p.rows_kv, p.batch * p.heads * (p.rows / 64 + 1)});
    if (o.blocks_per_sm > 0 && o.synchronous != 1)
        throw std::invalid_argument("blocks_per_sm: belongs to the synchronous kernel; set synchronous");
    if (o.synchronous == 1 && p.dim != 64)
        throw std::invalid_argument("synchronous: is built for head dim 64 alone, the paper's occupancy figure");
    const call c{{p}, q, k, v, out, lse, o.order == 1, stream};
    if (o.synchronous == 1) c.synchronous<64>(o.blocks_per_sm < 1 ? 4 : std::min(o.blocks_per_sm, 4));
    else if (p.dim == 128) c.pipelined<config{128, 128, 2, 5, true}>();
    else if (c.cost(3, 1) <= c.cost(2, 0.85)) c.pipelined<config{64, 128, 3, 8, false}>();
    else c.pipelined<config{64, 128, 2, 8, true}>();
}

}  // namespace tk::attention
