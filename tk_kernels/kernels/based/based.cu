// The host side of Based: into how many segments a sequence is cut, and the launches.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "based.cuh"

namespace tk::based {
namespace {

int steps_of(const problem& p) { return int(divide_up(p.rows, chunk)); }

// What a step takes where a block has a multiprocessor to itself and where two share one, measured (README.md), in what
// the tensor cores could multiply meanwhile: 2000 and 2800 clocks of an H200.
constexpr double step_alone = 2000 * 4096., step_shared = 2800 * 4096.;

// Clocks that a problem takes in so many segments (README.md): steps by rounds of blocks, and the segments' states,
// which the blocks of the later ones read.
double clocks(const problem& p, int segments) {
    const double sequences = double(p.batch * p.heads), resident = double(walk::blocks_per_sm) * multiprocessors();
    const double tasks = sequences * segments, steps = std::ceil(double(steps_of(p)) / segments);
    const bool alone = walk::blocks_per_sm == 1 || tasks <= multiprocessors();
    const double step = (alone ? step_alone : step_shared) / limits::multiply_bytes;
    const double walk = std::ceil(tasks / resident) * steps * step;
    if (segments == 1) return walk;
    const double state_bytes = 4. * (state_elements + pair_elements);
    const double of_one = segments * state_bytes / limits::operand_bytes;
    const double of_all = tasks * segments / 2 * state_bytes / limits::memory_bytes;
    return 1.6 * walk + std::max(of_one, of_all) + limits::launch_clocks;
}

template <bool Normalize>
void run(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* state,
         float* pairs, float* scratch, int count, void* stream) {
    const int64_t sequences = p.batch * p.heads;
    const segmentation of(steps_of(p), count);
    const int earlier = count - 1;
    const heads_of<narrow> queries{q, p.batch, p.heads, p.rows, feature_dim},
        keys{k, p.batch, p.heads, p.rows, feature_dim};
    const heads_of<wide> values{v, p.batch, p.heads, p.rows, value_dim},
        result{out, p.batch, p.heads, p.rows, value_dim};
    const matrices each_segment{scratch, sequences, 1, earlier, state_elements + pair_elements};
    const auto order = [&](int computed) {
        return segment_order{int(p.heads), int(sequences), computed, of.length, of.steps};
    };
    if (earlier > 0)
        launch_tasks<lcsf<segment_kernel<Normalize>>>(sequences * earlier, stream,
                                                      {keys, values, each_segment, order(earlier)});
    launch_tasks<lcsf<kernel<Normalize>>>(sequences * count, stream,
                                          {queries,
                                           keys,
                                           values,
                                           result,
                                           each_segment,
                                           {state, sequences, 1, features, value_dim},
                                           {pairs, sequences, 1, pair_rows, feature_dim},
                                           order(count)});
}

}  // namespace

int segments(const problem& p, const options& o) {
    const int steps = steps_of(p), most = std::min(steps, most_segments);
    if (o.segments > most)
        throw std::invalid_argument("segments: got " + std::to_string(o.segments) + ", needs at most " +
                                    std::to_string(most) + " here: one for every 64 rows, and no more than 64");
    const auto cost = [&](int count) { return clocks(p, count); };
    return segmentation(steps, o.segments > 0 ? o.segments : cheapest_segments(most, cost)).count;
}

void launch(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* state,
            float* pairs, float* scratch, const options& o, void* stream) {
    require_counts("based", 256, {p.rows, p.batch * p.heads});
    if (p.normalize) run<true>(p, q, k, v, out, state, pairs, scratch, segments(p, o), stream);
    else run<false>(p, q, k, v, out, state, pairs, scratch, segments(p, o), stream);
}

}  // namespace tk::based
