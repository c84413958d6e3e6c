// The kernels of linear attention's backward pass: weights and decays of a dt, a skip, an initial state and gradients
// of both states, fewer stages than chunks, several tasks a block, a tail of rows; the last kernel by itself, on
// sequences that are long enough for several chunks a warp.
// SCHEDULE 0: two blocks' units, in turn, add to the gradients of q and k, keys of 64; 1: one block rounds them, keys
// of 128, whose state has one copy; parts that are added in order; decays a head, of two units.
#include "linear_attention/backward.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::linear_attention;

constexpr int schedules = 2;
constexpr int K = SCHEDULE == 0 ? 64 : 128, D = 64, N = 200;
constexpr int H = 4, G = SCHEDULE == 0 ? 1 : 2;                          // heads, groups that share q and k
constexpr int rows = 1100, heads = 2, halves = SCHEDULE + 1, parts = 3;  // of the kernels by themselves

mutants::given<bf16> q(G * N * K), k(G * N * K), v(H * N * D), dout(H * N * D);
mutants::given<float> dt(N* H), rate(H, [](double x) { return -std::fabs(x) / 10; }), skips(H), initial(H * K * D),
    dfinal(H * K * D);
mutants::result<float> sums(2 * G * N * K), dinitial(H * K * D), dots(H * 4 * N);
mutants::result<bf16> dq(G * N * K), dk(G * N * K), dv(H * N * D);

mutants::given<float> stored(2 * G * parts * N * K), products(heads * halves * 4 * rows), long_dt(rows* heads),
    finals(heads * K * D), dfinals(heads * K * D);
mutants::result<bf16> of_parts(2 * G * N * K);
mutants::result<float> of_steps(heads* rows), totals(heads * 3), of_skips(heads);  // the third are far smaller

static either_order<state_matrices> state(std::vector<float>& x) { return {{x.data(), 1, H, D, K}, true}; }
static shared_gradient<K> shared(std::vector<bf16>& rounded, int first) {
    return {{rounded.data(), 1, G, N, K}, {sums.data() + first, 1, G, N, K}, SCHEDULE == 1, SCHEDULE == 0, H / G};
}
static decay_source decays_of(decays::source from, std::vector<float>& dt, int rows, int heads) {
    return {from,
            rows,
            rate.data(),
            nullptr,
            true,
            false,
            {nullptr, 1, heads, 1, rows},
            {dt.data(), 1, 1, rows, heads},
            {nullptr, 1, 1, rows, heads}};
}
template <bool Clears> static void run_sums(std::vector<float>& x, int parts, bf16* dq, bf16* dk) {
    using kernel = sums_kernel<K, Clears>;
    const int strips = (N + kernel::rows - 1) / kernel::rows;
    launch<kernel>({2 * G * strips, 0}, nullptr,
                   {{x.data(), 2 * G, parts, N, K}, {{dq, 1, G, N, K}, {dk, 1, G, N, K}}, divisor(strips), divisor(G)});
}

static void run() {
    using queries = query_walk<K, 2, 2>;
    using keys = key_walk<K, 2, 2>;
    const walk_tensors<K> in{{q.data(), 1, G, N, K},
                             {k.data(), 1, G, N, K},
                             {v.data(), 1, H, N, D},
                             {dout.data(), 1, H, N, D},
                             decays_of(decays::from_dt, dt, N, H),
                             -0.5f,
                             {dots.data(), 1, H, 4, N},
                             {divisor(1)},
                             {divisor(H / 2), divisor(H / G), H / 2, 4}};
    if (SCHEDULE == 0) run_sums<true>(sums, 1, dq.data(), dk.data());
    launch<lcsf<queries>>({1, lcsf<queries>::shared_bytes, false, 1, true}, nullptr,
                          {in, shared(dq, 0), state(initial)});
    launch<lcsf<keys>>({1, lcsf<keys>::shared_bytes, false, 1, true}, nullptr,
                       {in,
                        shared(dk, G * N * K),
                        {dv.data(), 1, H, N, D},
                        {skips.data(), 1, 1, H, 1},
                        state(dfinal),
                        state(dinitial)});
    if (SCHEDULE == 0) run_sums<false>(sums, 1, dq.data(), dk.data());

    run_sums<false>(stored, parts, of_parts.data(), of_parts.data() + G * N * K);
    launch<decays_kernel>({heads, decays_kernel::shared_bytes}, nullptr,
                          {{products.data(), 1, heads * halves, 4, rows},
                           decays_of(SCHEDULE == 0 ? decays::from_dt : decays::per_head, long_dt, rows, heads),
                           SCHEDULE == 0,
                           {finals.data(), 1, heads, 1, K * D},
                           {dfinals.data(), 1, heads, 1, K * D},
                           {of_steps.data(), 1, heads, 1, rows},
                           {totals.data(), 1, 1, heads, 3},
                           divisor(heads),
                           halves});
    for (int head = 0; head < heads; head++) of_skips[head] = totals[3 * head + 2];
}
