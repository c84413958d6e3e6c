// The host side of Based: into how many segments a sequence is cut, and the launches.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "based.cuh"

namespace tk::based {
namespace {

int steps_of(const problem& p) { return int((p.rows + chunk - 1) / chunk); }

// Clocks that a problem takes in so many segments (README.md): steps by rounds of blocks, and the segments' states, which
// the blocks of the later ones read.
double clocks(const problem& p, int segments) {
    const double sequences = double(p.batch * p.heads), resident = 2. * multiprocessors();
    const double tasks = sequences * segments, steps = std::ceil(double(steps_of(p)) / segments);
    const double step = tasks > multiprocessors() ? 2800 : 2000;
    const double walk = std::ceil(tasks / resident) * steps * step;
    if (segments == 1) return walk;
    const double state_bytes = 4. * (state_elements + pair_elements);
    const double of_one = segments * state_bytes / 64, of_all = tasks * segments / 2 * state_bytes / 2500;
    return 1.6 * walk + std::max(of_one, of_all) + 8000;
}

struct call {
    const problem& p;
    const tensor &q, &k, &v, &out;
    float *state, *pairs, *scratch;
    void* stream;

    template <typename Tile> heads_of<Tile> heads(const tensor& t) const {
        return {t, p.batch, p.heads, p.rows, Tile::cols};
    }
    static matrices each_head(float* data, int64_t sequences, int64_t rows, int64_t cols) {
        return {data, int(sequences), 1, int(rows), int(cols)};
    }

    static int resident(int64_t tasks) { return int(std::min<int64_t>(tasks, 2 * multiprocessors())); }

    template <bool Normalize> void run(int segments) const {
        const int64_t sequences = p.batch * p.heads;
        const int total = steps_of(p), steps = (total + segments - 1) / segments, earlier = segments - 1;
        const segment_order order{int(p.heads), int(sequences), segments, steps, total};
        const matrices each_segment = each_head(scratch, sequences, earlier, state_elements + pair_elements);
        if (earlier > 0) {
            using pipeline = lcsf<segment_kernel<Normalize>>;
            kittens::launch<pipeline>({resident(sequences * earlier), pipeline::shared_bytes}, stream,
                                      {heads<narrow>(k), heads<wide>(v), each_segment,
                                       segment_order{int(p.heads), int(sequences), earlier, steps, total}});
        }
        using pipeline = lcsf<kernel<Normalize>>;
        kittens::launch<pipeline>({resident(sequences * segments), pipeline::shared_bytes}, stream,
                                  {heads<narrow>(q), heads<narrow>(k), heads<wide>(v), heads<wide>(out), each_segment,
                                   each_head(state, sequences, features, value_dim),
                                   each_head(pairs, sequences, pair_rows, feature_dim), order});
    }
};

}  // namespace

int segments(const problem& p, const options& o) {
    const int total = steps_of(p), most = std::min(total, most_segments);
    if (o.segments > most)
        throw std::invalid_argument("segments: got " + std::to_string(o.segments) + ", needs at most " +
                                    std::to_string(most) + " here: one for every 64 rows, and no more than 64");
    int best = 1;
    if (o.segments > 0) best = o.segments;
    else
        for (int n = 2; n <= most; n++)
            if (clocks(p, n) < clocks(p, best)) best = n;
    const int steps = (total + best - 1) / best;
    return (total + steps - 1) / steps;  // none is empty
}

void launch(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out, float* state,
            float* pairs, float* scratch, const options& o, void* stream) {
    constexpr int64_t most = std::numeric_limits<int>::max() / 256;
    if (p.rows > most || p.batch * p.heads > most)
        throw std::invalid_argument("based: the problem is too large for 32-bit indices; split the batch");
    const call c{p, q, k, v, out, state, pairs, scratch, stream};
    if (p.normalize) c.run<true>(segments(p, o));
    else c.run<false>(segments(p, o));
}

}  // namespace tk::based
