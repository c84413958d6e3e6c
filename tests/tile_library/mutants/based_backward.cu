// The gradients of Based: both walks, normalised and with the states' gradients, or plain; several tasks a block, more
// chunks than stages, a tail of rows.
#include "based/backward.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::based;

constexpr int schedules = 2;
constexpr bool normalize = SCHEDULE == 0;
constexpr int H = 2, N = 300, F = 16, D = 64, steps = 5;
mutants::given<bf16> q(H * N * F), k(H * N * F), v(H * N * D), dout(H * N * D), out(H * N * D);
mutants::given<float> dstate(H * features * D), dpairs(H * pair_rows * F);
mutants::result<bf16> dq(H * N * F), dk(H * N * F), dv(H * N * D);
mutants::result<float> rows(normalize ? H * 2 * N : 1);

static void run() {
    using queries = lcsf<query_walk<normalize>>;
    using keys = lcsf<key_walk<normalize>>;
    const segment_order order{H, H, 1, steps, steps};
    const numbers of_rows{rows.data(), 1, H, 2, N};
    launch<queries>({1, queries::shared_bytes, false, 1, true}, nullptr,
                    {{q.data(), 1, H, N, F},
                     {k.data(), 1, H, N, F},
                     {v.data(), 1, H, N, D},
                     {dout.data(), 1, H, N, D},
                     {out.data(), 1, H, N, D},
                     {dq.data(), 1, H, N, F},
                     of_rows,
                     order});
    launch<keys>({1, keys::shared_bytes, false, 1, true}, nullptr,
                 {{q.data(), 1, H, N, F},
                  {k.data(), 1, H, N, F},
                  {v.data(), 1, H, N, D},
                  {dout.data(), 1, H, N, D},
                  {dk.data(), 1, H, N, F},
                  {dv.data(), 1, H, N, D},
                  of_rows,
                  {dstate.data(), H, 1, features, D},
                  {dpairs.data(), H, 1, pair_rows, F},
                  order});
}
