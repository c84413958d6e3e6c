// Which kernel a problem gets, how its sequences are cut, and the kernels that are built.
#include <algorithm>
#include <cmath>

#include "call.cuh"
#include "linear_attention.cuh"

namespace tk::linear_attention {
namespace {

// Time for a sequence in so many segments, all of them at the same time, in chunks' times (README.md): the sums of the
// segments take less than the outputs; starting two more kernels and combining the states takes as long as some chunks.
double cost(int chunks, int segments) {
    const double length = divide_up(chunks, segments);
    return segments == 1 ? length : 1.45 * length + 6 + 0.2 * segments;
}

segmentation cut_of(const problem& p, const options& o) {
    require_counts("linear_attention", 4, {p.rows, p.batch * p.heads * 2 * (p.rows / chunk + 1)});
    const int chunks = int(divide_up(p.rows, chunk));
    const int64_t blocks = limits::blocks_of_one_consumer(2) * multiprocessors();
    const int64_t together = blocks / (p.batch * units_of(p));  // segments that run at the same time
    const auto cheapest = [&] {
        return cheapest_segments(std::min<int64_t>(chunks, together), [&](int n) { return cost(chunks, n); });
    };
    return {chunks, o.segments < 1 ? cheapest() : std::min(o.segments, chunks)};
}

// Of the states between segments.
int64_t slots_of(const problem& p, const segmentation& cut) { return p.batch * units_of(p) * (cut.count - 1); }

struct forward_call : call {
    const tensor &q, &k, &v, &out;
    float* scratch;
    segmentation cut;
    const int64_t slots = slots_of(p, cut);

    state_matrices starts() const { return {scratch, 1, slots, unit_cols, p.key_dim}; }
    state_matrices totals() const { return {scratch + slots * unit_cols * p.key_dim, 1, slots, 1, unit_cols}; }

    // The kernel over `segments` of a sequence's segments: all, or all but the last.
    template <config C> void run(int segments) const {
        const int64_t tasks = p.batch * units_of(p) / C.consumers * segments;
        const segment_order order{divisor(units_of(p) / C.consumers), divisor(segments), divisor(sharing(p)),
                                  int(tasks), cut};
        launch_tasks<lcsf<chunk_kernel<C>>>(
            tasks, stream,
            {of_keys(q), of_keys(k), of_values(v), of_values(out), decay(), std::log2(std::fabs(p.scale)), p.scale < 0,
             skips(), state(s.initial), state(s.final), starts(), totals(), units(), order},
            cut.count == 1);
    }
    // SumStages: of the ring of the kernel that only sums.
    template <config Of, int SumStages> void run_all() const {
        if (cut.count > 1) {
            run<config{.keys = Of.keys, .consumers = Of.consumers, .stages = SumStages}>(cut.count - 1);
            carry_states<Of.keys>(p.batch * units_of(p), stream,
                                  {state(s.initial), starts(), totals(), units(), divisor(units_of(p)), cut.count - 1});
        }
        run<Of>(cut.count);
    }
};

}  // namespace

int64_t scratch_elements(const problem& p, const options& o) {
    return slots_of(p, cut_of(p, o)) * unit_cols * (p.key_dim + 1);
}

void forward(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, const decays& d,
             const states& s, const skip& extra, float* scratch, const options& o, void* stream) {
    const forward_call c{{p, d, s, extra, stream}, q, k, v, out, scratch, cut_of(p, o)};
    if constexpr (limits::moves_registers)
        if (units_of_block(p) == 2)
            return p.key_dim == 64 ? c.run_all<config{.keys = 64, .consumers = 2, .stages = 4, .outputs = true}, 6>()
                                   : c.run_all<config{.keys = 128, .consumers = 2, .stages = 3, .outputs = true}, 5>();
    if (p.key_dim == 64) c.run_all<config{.keys = 64, .consumers = 1, .stages = 3, .outputs = true}, 4>();
    else c.run_all<config{.keys = 128, .consumers = 1, .stages = 2, .outputs = true}, 3>();
}

}  // namespace tk::linear_attention
