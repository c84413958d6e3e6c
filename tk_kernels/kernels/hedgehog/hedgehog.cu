// Into how many segments a problem is cut, and the launches.
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "hedgehog.cuh"

namespace tk::hedgehog {
namespace {

constexpr int most_segments = 64;

int64_t blocks_of(const problem& p) { return (p.rows + rows - 1) / rows; }

// Segments that have a block of their own, where so many are wanted.
int filled(const problem& p, int wanted) {
    const int64_t blocks = blocks_of(p), each = (blocks + wanted - 1) / wanted;
    return int((blocks + each - 1) / each);
}

// Time in steps of 64 rows, for so many segments (README.md).
double cost(const problem& p, int count) {
    const double each = double((blocks_of(p) + count - 1) / count);
    const auto rounds = [&](int64_t tasks) { return double((tasks + multiprocessors() - 1) / multiprocessors()); };
    const int64_t sequences = p.batch * p.heads;
    const double answers = rounds(sequences * count) * (each + 1.5);
    return count == 1 ? answers : answers + rounds(sequences * (count - 1)) * (0.8 * each + 1.5) + 5;
}

// `count` states of each sequence, whose k follow all of the kv.
state_list scratch_states(float* scratch, int sequences, int count) {
    constexpr int64_t kv = int64_t(2) * features * dim;
    return {{scratch + sequences * count * kv, sequences, count, 1, 2 * features},
            {scratch, sequences, count, 2 * features, dim}};
}

template <config C> void run(const typename kernel<C>::globals& g, void* stream) {
    kittens::launch<kernel<C>>({std::min(g.order.tasks, multiprocessors()), kernel<C>::shared_bytes}, stream, g);
}

}  // namespace

int segments(const problem& p, int wanted) {
    if (wanted == 0 || wanted > most_segments)
        throw std::invalid_argument("segments: got " + std::to_string(wanted) + ", needs a number from 1 to " +
                                    std::to_string(most_segments));
    if (wanted > 0) return filled(p, wanted);
    int best = 1;
    for (int count = 2; count <= std::min<int64_t>(most_segments, blocks_of(p) / 4); count++)
        if (cost(p, count) < cost(p, best)) best = count;
    return filled(p, best);
}

int64_t scratch_elements(const problem& p, int count) {
    return p.batch * p.heads * (count - 1) * (int64_t(2) * features * (dim + 1));
}

void forward(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out,
             const head_weights& heads, const states& finals, int count, float* scratch, void* stream) {
    constexpr int64_t most = std::numeric_limits<int>::max() / 256;
    if (p.rows > most || p.batch * p.heads > most || p.batch * p.heads * most_segments > most)
        throw std::invalid_argument("hedgehog: the problem has too many blocks for 32-bit indices; split the batch");
    const int sequences = int(p.batch * p.heads), blocks = int(blocks_of(p)), each = (blocks + count - 1) / count;
    const state_list carried = scratch_states(scratch, sequences, count - 1);
    const state_list last{{finals.k, sequences, 1, 1, 2 * features}, {finals.kv, sequences, 1, 2 * features, dim}};
    const auto globals = [&]<config C>(const state_list& before, const state_list& after, bool wanted, int computed) {
        return
            typename kernel<C>::globals{{q, p.batch, p.heads, p.rows, dim},
                                        {k, p.batch, p.heads, p.rows, dim},
                                        {v, p.batch, p.heads, p.rows, dim},
                                        {out, p.batch, p.heads, p.rows, dim},
                                        {static_cast<bf16*>(heads.q_map), 1, int(p.heads), dim, features},
                                        {static_cast<bf16*>(heads.k_map), 1, int(p.heads), dim, features},
                                        heads.alpha,
                                        heads.beta,
                                        before,
                                        after,
                                        wanted,
                                        p.rows % rows == 0,
                                        {blocks, each, sequences * computed, divisor(computed), divisor(int(p.heads))}};
    };
    if (count > 1) {
        constexpr config additions{false, 3};
        run<additions>(globals.template operator()<additions>(carried, carried, true, count - 1), stream);
        const int lines = sequences * prefix_kernel::lines;
        kittens::launch<prefix_kernel>({(lines + prefix_kernel::warps - 1) / prefix_kernel::warps, 0}, stream,
                                       {carried, count - 1});
    }
    constexpr config answers{true, 3};
    run<answers>(globals.template operator()<answers>(carried, last, finals.kv != nullptr, count), stream);
}

}  // namespace tk::hedgehog
