// Which kernel a problem gets, how its sequences are cut, and the kernels that are built.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "linear_attention.cuh"

namespace tk::linear_attention {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a problem is laid over the multiprocessors.
struct plan {
    int units, shared;     // of a batch; whether two units of a block share q and k
    int segments, length;  // of a sequence; chunks of a segment, the last may have fewer
    int chunks;            // of a sequence

    int consumers() const { return shared ? 2 : 1; }
    int blocks(const problem& p, int of_segments) const { return int(p.batch) * units / consumers() * of_segments; }
    int64_t slots(const problem& p) const { return p.batch * units * (segments - 1); }
};

// Time for a sequence in so many segments, all of them at the same time, in chunks' times (README.md): the sums of the
// segments take less than the outputs; starting two more kernels and combining the states takes as long as some chunks.
double cost(const plan& of, int segments) {
    const double length = double(divide_up(of.chunks, segments));
    return segments == 1 ? length : 1.45 * length + 15 + 0.2 * segments;
}

plan plan_of(const problem& p, const options& o) {
    plan of;
    const int halves = p.value_dim / unit_cols;
    of.units = int(p.heads) * halves;
    of.shared = p.heads / p.groups * halves % 2 == 0;
    of.chunks = int(divide_up(p.rows, chunk));
    int segments = std::min(o.segments, of.chunks);
    if (o.segments < 1) {
        const int64_t most = 2 * multiprocessors() / (p.batch * of.units);  // that run at the same time
        segments = 1;
        for (int cut = 2; cut <= std::min<int64_t>(of.chunks, most); cut++)
            if (cost(of, cut) < cost(of, segments)) segments = cut;
    }
    of.length = int(divide_up(of.chunks, segments));
    of.segments = int(divide_up(of.chunks, of.length));
    return of;
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

    decay_source decay() const {
        const int B = int(p.batch), H = int(p.heads), N = int(p.rows);
        return {d.from,
                N,
                d.rate,
                d.dt_bias,
                d.softplus,
                d.dt_is_bf16,
                {const_cast<float*>(d.log_decay), B, H, 1, N},
                {static_cast<float*>(const_cast<void*>(d.dt)), B, 1, N, H, d.dt_row_stride, 0, d.dt_batch_stride},
                {static_cast<bf16*>(const_cast<void*>(d.dt)), B, 1, N, H, d.dt_row_stride, 0, d.dt_batch_stride}};
    }
    matrices state(const float* data) const {
        const int rows = s.values_first ? p.value_dim : p.key_dim, cols = s.values_first ? p.key_dim : p.value_dim;
        return {const_cast<float*>(data), int(p.batch), int(p.heads), rows, cols};
    }
    matrices starts() const { return {scratch, 1, int(of.slots(p)), unit_cols, p.key_dim}; }
    matrices totals() const {
        return {scratch + of.slots(p) * unit_cols * p.key_dim, 1, int(of.slots(p)), 1, unit_cols};
    }
    units unit() const { return {divisor(p.value_dim / unit_cols)}; }

    // The kernel over `segments` of a sequence's segments: all, or all but the last.
    template <config C> void run(int segments) const {
        using kernel = chunk_kernel<C>;
        using pipeline = lcsf<kernel>;
        const int tasks = of.blocks(p, segments), H = int(p.heads);
        const typename kernel::globals g{
            {q, p.batch, p.groups, p.rows, p.key_dim},
            {k, p.batch, p.groups, p.rows, p.key_dim},
            {v, p.batch, p.heads, p.rows, p.value_dim},
            {out, p.batch, p.heads, p.rows, p.value_dim},
            decay(),
            std::log2(std::fabs(p.scale)),
            p.scale < 0,
            {const_cast<float*>(extra.weight), 1, 1, H, extra.per_column ? p.value_dim : 1},
            {state(s.initial), s.values_first},
            {state(s.final), s.values_first},
            starts(),
            totals(),
            unit(),
            divisor(of.units / C.consumers),
            divisor(segments),
            divisor(of.units / int(p.groups)),
            tasks,
            of.segments,
            of.length,
            of.chunks};
        launch<pipeline>({std::min(tasks, pipeline::blocks_per_sm * multiprocessors()), pipeline::shared_bytes}, stream,
                         g);
    }
    template <int Keys> void combine() const {
        using kernel = combine_kernel<Keys>;
        const int units_of_all = int(p.batch) * of.units;
        const typename kernel::globals g{
            {state(s.initial), s.values_first}, starts(), totals(), unit(), divisor(of.units), of.segments - 1};
        launch<kernel>({units_of_all * kernel::strips, 0}, stream, g);
    }
    template <int Keys, int Consumers, int Stages, int SumStages> void run_all() const {
        if (of.segments > 1) {
            run<config{Keys, Consumers, SumStages, false}>(of.segments - 1);
            combine<Keys>();
        }
        run<config{Keys, Consumers, Stages, true}>(of.segments);
    }
};

void require_indices(const problem& p) {
    constexpr int64_t most = std::numeric_limits<int>::max() / 4;
    if (p.rows > most || p.batch * p.heads > most || p.batch * p.heads * 2 * (p.rows / chunk + 1) > most)
        throw std::invalid_argument(
            "linear_attention: the problem has too many chunks for 32-bit indices; split the batch");
}

}  // namespace

std::int64_t scratch_elements(const problem& p, const options& o) {
    require_indices(p);
    return plan_of(p, o).slots(p) * unit_cols * (p.key_dim + 1);
}

void forward(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, const decays& d,
             const states& s, const skip& extra, float* scratch, const options& o, void* stream) {
    require_indices(p);
    const call c{p, q, k, v, out, d, s, extra, scratch, plan_of(p, o), stream};
    if (p.key_dim == 64 && c.of.shared) c.run_all<64, 2, 4, 6>();
    else if (p.key_dim == 64) c.run_all<64, 1, 3, 4>();
    else if (c.of.shared) c.run_all<128, 2, 3, 5>();
    else c.run_all<128, 1, 2, 3>();
}

}  // namespace tk::linear_attention
