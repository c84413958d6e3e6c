// The two walks of linear attention's backward pass, one behind the other: weights and decays of a dt, a skip, an
// initial state and gradients of both states, fewer stages than chunks, several tasks a block, a tail of rows.
// SCHEDULE 0: two blocks' units, in turn, add to the gradients of q and k, keys of 64; 1: one block rounds them, keys
// of 128, whose state has one copy.
#include "linear_attention/backward.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::linear_attention;

constexpr int schedules = 2;
constexpr int K = SCHEDULE == 0 ? 64 : 128, D = 64, N = 200;
constexpr int H = 4, G = SCHEDULE == 0 ? 1 : 2;  // heads, groups that share q and k

mutants::given<bf16> q(G * N * K), k(G * N * K), v(H * N * D), dout(H * N * D);
mutants::given<float> dt(N* H), rate(H, [](double x) { return -std::fabs(x) / 10; }), skips(H), initial(H * K * D),
    dfinal(H * K * D);
mutants::result<float> dq_sums(G * N * K), dk_sums(G * N * K), dinitial(H * K * D), dots(H * 4 * N);
mutants::result<bf16> dq(G * N * K), dk(G * N * K), dv(H * N * D);

static either_order<state_matrices> state(std::vector<float>& x) { return {{x.data(), 1, H, D, K}, true}; }
static shared_gradient<K> shared(std::vector<bf16>& rounded, std::vector<float>& sums) {
    return {{rounded.data(), 1, G, N, K}, {sums.data(), 1, G, N, K}, SCHEDULE == 1, SCHEDULE == 0};
}

static void run() {
    using queries = query_walk<K, 2, 2>;
    using keys = key_walk<K, 2, 2>;
    for (auto* sums : {&dq_sums, &dk_sums}) std::fill(sums->begin(), sums->end(), 0.f);
    for (auto* rounded : {&dq, &dk})
        if (SCHEDULE == 0) std::fill(rounded->begin(), rounded->end(), from_float<bf16>(0.f));
    const decay_source decay{
        decays::from_dt,      N, rate.data(), nullptr, true, false, {nullptr, 1, H, 1, N}, {dt.data(), 1, 1, N, H},
        {nullptr, 1, 1, N, H}};
    const auto inputs = [&]<typename Walk>(Walk*) -> typename Walk::shape::inputs {
        return {{q.data(), 1, G, N, K},
                {k.data(), 1, G, N, K},
                {v.data(), 1, H, N, D},
                {dout.data(), 1, H, N, D},
                decay,
                -0.5f,
                {dots.data(), 1, H, 4, N},
                {divisor(1)},
                {divisor(H / 2), divisor(H / G), H / 2, 4}};
    };
    launch<lcsf<queries>>({1, lcsf<queries>::shared_bytes, false, 1, true}, nullptr,
                          {inputs(static_cast<queries*>(nullptr)), shared(dq, dq_sums), H / G, state(initial)});
    launch<lcsf<keys>>({1, lcsf<keys>::shared_bytes, false, 1, true}, nullptr,
                       {inputs(static_cast<keys*>(nullptr)),
                        shared(dk, dk_sums),
                        H / G,
                        {dv.data(), 1, H, N, D},
                        {skips.data(), 1, 1, H, 1},
                        state(dfinal),
                        state(dinitial)});
}
