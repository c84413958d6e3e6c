// Attention's backward kernels, one behind the other, in the template that takes tasks from a queue: causal, grouped
// heads, more tasks than blocks, tails of rows and of keys. SCHEDULE 0: dim 64, whose consumers take turns; 1: dim 128,
// with one buffer of V; 2: the same without dQ, as where results must repeat, by one block, and the pass over queries
// behind it.
#include "attention/backward.cuh"
#include "attention/backward_queries.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::attention;

constexpr int schedules = 3;
constexpr int D = SCHEDULE == 0 ? 64 : 128;
constexpr bool sums_dq = SCHEDULE != 2;
constexpr int H = SCHEDULE == 2 ? 4 : 2, rows = 70, rows_kv = 620, padded = 128;  // heads of one head of keys
constexpr float scale = 0.1f;
constexpr int blocks = sums_dq ? 2 : 1;

mutants::given<bf16> q(H * rows * D), k(rows_kv* D), v(rows_kv* D), out(H * rows * D), dout(H * rows * D);
mutants::given<float> lse(H* rows, [](double x) { return x + 6; });
mutants::scratch<float> lse2(H* padded), delta(H* padded), sums(H * padded * D);
mutants::result<bf16> dq(H * rows * D), dk(rows_kv* D), dv(rows_kv* D);
static int claimed_tasks;

// (1, heads, rows, D), for tensors of any tiles.
struct dense {
    bf16* values;
    int heads, rows;

    template <typename... Tiles> operator heads_of<Tiles...>() const { return {values, 1, heads, rows, D}; }
};
dense queries(std::vector<bf16>& values) { return {values.data(), H, rows}; }
dense keys(std::vector<bf16>& values) { return {values.data(), 1, rows_kv}; }

static void run() {
    using kernel = keys_kernel<D, sums_dq>;
    using pipeline = lcf_queue<kernel>;
    claimed_tasks = 12345;
    const padded_values<D> lse2_of(lse2.data(), 1, H, 1, padded), delta_of(delta.data(), 1, H, 1, padded);
    const packed_sums<D> sums_of(sums.data(), 1, H, padded / 16, 16 * D);
    const tile_bands order(1, (rows_kv + kernel::keys - 1) / kernel::keys, 1);
    const task_queue queue{order.tiles(), &claimed_tasks};
    const row_grid grid(H, padded, rows_kernel<D>::rows);
    launch_all<rows_kernel<D>>(
        grid.tasks(1), nullptr,
        {queries(out), queries(dout), {lse.data(), 1, H, 1, rows}, lse2_of, delta_of, sums_of, sums_dq, queue, grid});
    const typename kernel::globals g{{queries(q), queries(dout), keys(k), keys(v), lse2_of, delta_of},
                                     sums_of,
                                     keys(dk),
                                     keys(dv),
                                     scale,
                                     {rows_kv, rows_kv - rows, true},
                                     order,
                                     queue,
                                     divisor(1),
                                     H,
                                     (rows + kernel::queries - 1) / kernel::queries};
    launch<pipeline>({blocks, pipeline::shared_bytes, true}, nullptr, g);
    if (sums_dq) return round_sums<D>(sums_of, tensor{dq.data(), H * rows * D, rows * D, D}, rows, scale, nullptr);
    using pass = queries_kernel<D>;
    const row_grid by_rows(H, rows, pass::rows);
    const int tasks = int(by_rows.tasks(1));
    launch<lcf_stream<pass>>({1, lcf_stream<pass>::shared_bytes}, nullptr,
                             {{queries(q), queries(dout), keys(k), keys(v), lse2_of, delta_of},
                              queries(dq),
                              scale,
                              {rows_kv, rows_kv - rows, true},
                              by_rows,
                              H,
                              tasks});
}
