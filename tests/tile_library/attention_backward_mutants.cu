// The project's attention backward kernels, one behind the other, in the pipeline template that takes tasks from a
// queue: what test_attention_backward_mutants.py changes, a line at a time. Causal, grouped heads, more tasks than
// blocks, tails of rows and of keys. SCHEDULE 0: dim 64, whose consumers take turns; 1: dim 128, with one buffer of V;
// 2: the same without dQ, as where results must repeat, by one block, and the pass over queries behind it. 3 to 5: the
// calls by warps, which test_attention_warps_mutants.py changes: with sums of dQ, where results must repeat, and with
// sums of dQ at dim 128.
#include <cmath>
#include <cstdio>
#include <vector>

#if SCHEDULE < 3
#include "backward.cuh"
#include "backward_queries.cuh"
#else
#include "gradients.cu"
#endif

using namespace kittens;
using namespace tk::attention;

namespace {

constexpr int D = SCHEDULE == 1 || SCHEDULE == 2 || SCHEDULE == 5 ? 128 : 64;
constexpr bool sums_dq = SCHEDULE != 2 && SCHEDULE != 4;
constexpr int H = 2, rows = 70, rows_kv = 300, padded = 128;  // query heads, which share one head of keys
constexpr float scale = 0.1f;

using matrix = std::vector<double>;

// (1, heads, rows, D), for tensors of any tiles.
struct dense {
    bf16* values;
    int heads, rows;

    template <typename... Tiles> operator heads_of<Tiles...>() const { return {values, 1, heads, rows, D}; }
};

struct data {
    std::vector<bf16> q, k, v, out, dout, dq, dk, dv;
    std::vector<float> lse, lse2, delta, sums;
    matrix expected_dq, expected_dk, expected_dv;
    int counter = 0;

    data()
        : q(H * rows * D),
          k(rows_kv * D),
          v(rows_kv * D),
          out(H * rows * D),
          dout(H * rows * D),
          dq(H * rows * D),
          dk(rows_kv * D),
          dv(rows_kv * D),
          lse(H * rows),
          lse2(H * padded),
          delta(H * padded),
          sums(H * padded * D),
          expected_dq(H * rows * D),
          expected_dk(rows_kv * D),
          expected_dv(rows_kv * D) {
        unsigned state = 1;
        for (auto* values : {&q, &k, &v, &dout})
            for (bf16& x : *values) {
                state = state * 1664525u + 1013904223u;
                x = from_float<bf16>(float(int(state >> 24) - 128) / 64.f);
            }
        for (int row = 0; row < H * rows; row++) expect(row, row % rows + rows_kv - rows + 1);
    }

    static double dot(const bf16* a, const bf16* b) {
        double sum = 0;
        for (int d = 0; d < D; d++) sum += double(to_float(a[d])) * to_float(b[d]);
        return sum;
    }
    // One row of queries, which sees the first `seen` keys.
    void expect(int row, int seen) {
        std::vector<double> p(seen);
        double sum = 0, along = 0;
        for (int key = 0; key < seen; key++) sum += p[key] = std::exp(scale * dot(&q[row * D], &k[key * D]));
        lse[row] = float(std::log(sum));
        for (int d = 0; d < D; d++) {
            double o = 0;
            for (int key = 0; key < seen; key++) o += p[key] / sum * to_float(v[key * D + d]);
            out[row * D + d] = from_float<bf16>(float(o));
            along += o * to_float(dout[row * D + d]);
        }
        for (int key = 0; key < seen; key++) {
            const double weight = p[key] / sum, ds = weight * (dot(&dout[row * D], &v[key * D]) - along) * scale;
            for (int d = 0; d < D; d++) {
                expected_dv[key * D + d] += weight * to_float(dout[row * D + d]);
                expected_dk[key * D + d] += ds * to_float(q[row * D + d]);
                expected_dq[row * D + d] += ds * to_float(k[key * D + d]);
            }
        }
    }

    // ||result - expected|| / ||expected||
    static double error(const std::vector<bf16>& result, const matrix& expected) {
        double wrong = 0, all = 0;
        for (size_t i = 0; i < expected.size(); i++) {
            const double difference = to_float(result[i]) - expected[i];
            wrong += difference * difference;
            all += expected[i] * expected[i];
        }
        return std::sqrt(wrong / all);
    }
};

tensor heads(std::vector<bf16>& values, int count, int length) {
    return {values.data(), count * length * D, length * D, D};
}

#if SCHEDULE < 3
constexpr int blocks = sums_dq ? 2 : 1;

void run(data& d) {
    using kernel = keys_kernel<D, sums_dq>;
    using pipeline = lcf_queue<kernel>;
    const auto queries = [](std::vector<bf16>& values) { return dense{values.data(), H, rows}; };
    const auto keys = [](std::vector<bf16>& values) { return dense{values.data(), 1, rows_kv}; };
    const padded_values<D> lse2(d.lse2.data(), 1, H, 1, padded), delta(d.delta.data(), 1, H, 1, padded);
    const packed_sums<D> sums(d.sums.data(), 1, H, padded / 16, 16 * D);
    const tile_bands order(1, (rows_kv + kernel::keys - 1) / kernel::keys, 1);
    const task_queue queue{order.tiles(), &d.counter};
    const row_grid grid(H, padded, rows_kernel<D>::rows);
    launch_all<rows_kernel<D>>(
        grid.tasks(1), nullptr,
        {queries(d.out), queries(d.dout), {d.lse.data(), 1, H, 1, rows}, lse2, delta, sums, sums_dq, queue, grid});
    const typename kernel::globals g{{queries(d.q), queries(d.dout), keys(d.k), keys(d.v), lse2, delta},
                                     sums,
                                     keys(d.dk),
                                     keys(d.dv),
                                     scale,
                                     {rows_kv, rows_kv - rows, true},
                                     order,
                                     queue,
                                     divisor(1),
                                     H,
                                     (rows + kernel::queries - 1) / kernel::queries};
    launch<pipeline>({blocks, pipeline::shared_bytes, true}, nullptr, g);
    if (sums_dq) return round_sums<D>(sums, heads(d.dq, H, rows), rows, scale, nullptr);
    using pass = queries_kernel<D>;
    const row_grid by_rows(H, rows, pass::rows);
    const int tasks = int(by_rows.tasks(1));
    launch_all<lcf_stream<pass>>(tasks, nullptr,
                                 {{queries(d.q), queries(d.dout), keys(d.k), keys(d.v), lse2, delta},
                                  queries(d.dq),
                                  scale,
                                  {rows_kv, rows_kv - rows, true},
                                  by_rows,
                                  H,
                                  tasks});
}
#else
void run(data& d) {
    const auto queries = [](std::vector<bf16>& values) { return heads(values, H, rows); };
    const auto keys = [](std::vector<bf16>& values) { return heads(values, 1, rows_kv); };
    const problem p{1, H, 1, rows, rows_kv, D, true, scale};
    std::vector<float> scratch(scratch_by_warps(p, !sums_dq), NAN);
    backward_by_warps(p,
                      {queries(d.q), keys(d.k), keys(d.v), queries(d.out), d.lse.data(), queries(d.dout), queries(d.dq),
                       keys(d.dk), keys(d.dv), scratch.data(), !sums_dq},
                      nullptr);
}
#endif

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    static data d;
    cpu::forced_options = cpu::options{seed, 1};
    d.counter = 12345;
    for (auto* results : {&d.dq, &d.dk, &d.dv})
        for (bf16& x : *results) x = bf16{0x7fc0};
    for (float& x : d.sums) x = NAN;
    try {
        run(d);
    } catch (const kittens::error& found) {
        std::snprintf(message, size, "%s", found.what());
        return 1;
    }
    const double errors[] = {data::error(d.dq, d.expected_dq), data::error(d.dk, d.expected_dk),
                             data::error(d.dv, d.expected_dv)};
    if (errors[0] < 8e-3 && errors[1] < 8e-3 && errors[2] < 8e-3) return 0;
    std::snprintf(message, size, "relative error of dQ, dK, dV %g %g %g", errors[0], errors[1], errors[2]);
    return 2;
}
