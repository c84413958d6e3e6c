// Which kernel a problem gets, how its sequences are cut, and the kernels that are built.
#include <algorithm>
#include <cmath>

#include "linear_attention.cuh"

namespace tk::linear_attention {
namespace {

// How a problem is laid over the multiprocessors.
struct plan {
    int units;         // of a batch
    bool shared;       // two units of a block share q and k
    segmentation cut;  // of a sequence's chunks

    int64_t slots(const problem& p) const { return p.batch * units * (cut.count - 1); }
};

// Time for a sequence in so many segments, all of them at the same time, in chunks' times (README.md): the sums of the
// segments take less than the outputs; starting two more kernels and combining the states takes as long as some chunks.
double cost(int chunks, int segments) {
    const double length = divide_up(chunks, segments);
    return segments == 1 ? length : 1.45 * length + 6 + 0.2 * segments;
}

plan plan_of(const problem& p, const options& o) {
    const int halves = p.value_dim / unit_cols, units = int(p.heads) * halves, chunks = int(divide_up(p.rows, chunk));
    require_counts("linear_attention", 4, {p.rows, p.batch * p.heads * 2 * (p.rows / chunk + 1)});
    const int64_t blocks = limits::blocks_of_one_consumer(2) * multiprocessors();
    const int64_t together = blocks / (p.batch * units);  // segments that run at the same time
    const auto cheapest = [&] {
        return cheapest_segments(std::min<int64_t>(chunks, together), [&](int n) { return cost(chunks, n); });
    };
    return {units, limits::moves_registers && p.heads / p.groups * halves % 2 == 0,
            segmentation(chunks, o.segments < 1 ? cheapest() : std::min(o.segments, chunks))};
}

struct call {
    const problem& p;
    const tensor &q, &k, &v, &out;
    const decays& d;
    const states& s;
    const skip& extra;
    float* scratch;
    plan of;
    void* stream;

    template <typename T> of_heads<T> dt() const {
        T* const data = static_cast<T*>(const_cast<void*>(d.dt));
        return {data, p.batch, 1, p.rows, p.heads, d.dt_row_stride, 0, d.dt_batch_stride};
    }
    decay_source decay() const {
        const gl<float, dynamic, dynamic, 1, dynamic> each(const_cast<float*>(d.log_decay), p.batch, p.heads, 1,
                                                           p.rows);
        return {d.from, int(p.rows), d.rate, d.dt_bias, d.softplus, d.dt_is_bf16, each, dt<float>(), dt<bf16>()};
    }
    either_order<state_matrices> kept(const float* data) const {
        const int rows = s.values_first ? p.value_dim : p.key_dim, cols = s.values_first ? p.key_dim : p.value_dim;
        return {{const_cast<float*>(data), p.batch, p.heads, rows, cols}, s.values_first};
    }
    state_matrices starts() const { return {scratch, 1, of.slots(p), unit_cols, p.key_dim}; }
    state_matrices totals() const {
        return {scratch + of.slots(p) * unit_cols * p.key_dim, 1, of.slots(p), 1, unit_cols};
    }
    head_units units() const { return {divisor(p.value_dim / unit_cols)}; }
    skip_weights skips() const {
        return {const_cast<float*>(extra.weight), 1, 1, p.heads, extra.per_column ? p.value_dim : 1};
    }
    template <typename Tile> heads_of<Tile> of_keys(const tensor& t) const {
        return {t, p.batch, p.groups, p.rows, p.key_dim};
    }
    template <typename Tile> heads_of<Tile> of_values(const tensor& t) const {
        return {t, p.batch, p.heads, p.rows, p.value_dim};
    }

    // The kernel over `segments` of a sequence's segments: all, or all but the last.
    template <config C> void run(int segments) const {
        using kernel = chunk_kernel<C>;
        using keys = typename kernel::keys;
        const int64_t tasks = p.batch * of.units / C.consumers * segments;
        const segment_order order{divisor(of.units / C.consumers), divisor(segments), divisor(of.units / int(p.groups)),
                                  int(tasks), of.cut};
        launch_tasks<lcsf<kernel>>(
            tasks, stream,
            {of_keys<keys>(q), of_keys<keys>(k), of_values<typename kernel::values>(v),
             of_values<typename kernel::strip>(out), decay(), std::log2(std::fabs(p.scale)), p.scale < 0, skips(),
             kept(s.initial), kept(s.final), starts(), totals(), units(), order},
            of.cut.count == 1);
    }
    // SumStages: of the ring of the kernel that only sums.
    template <config Of, int SumStages> void run_all() const {
        if (of.cut.count > 1) {
            run<config{.keys = Of.keys, .consumers = Of.consumers, .stages = SumStages}>(of.cut.count - 1);
            carry_states<Of.keys>(p.batch * of.units, stream,
                                  {kept(s.initial), starts(), totals(), units(), divisor(of.units), of.cut.count - 1});
        }
        run<Of>(of.cut.count);
    }
};

}  // namespace

int64_t scratch_elements(const problem& p, const options& o) {
    return plan_of(p, o).slots(p) * unit_cols * (p.key_dim + 1);
}

void forward(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, const decays& d,
             const states& s, const skip& extra, float* scratch, const options& o, void* stream) {
    const call c{p, q, k, v, out, d, s, extra, scratch, plan_of(p, o), stream};
    if constexpr (limits::moves_registers)
        if (c.of.shared)
            return p.key_dim == 64 ? c.run_all<config{.keys = 64, .consumers = 2, .stages = 4, .outputs = true}, 6>()
                                   : c.run_all<config{.keys = 128, .consumers = 2, .stages = 3, .outputs = true}, 5>();
    if (p.key_dim == 64) c.run_all<config{.keys = 64, .consumers = 1, .stages = 3, .outputs = true}, 4>();
    else c.run_all<config{.keys = 128, .consumers = 1, .stages = 2, .outputs = true}, 3>();
}

}  // namespace tk::linear_attention
