// Causal attention with a window, whose edges fall inside tiles: grouped heads, more keys than queries, tails of both.
// SCHEDULE 0: forward by warps; 1: backward by warps; 2: forward, three consumers; 3: backward.
namespace tk::attention {
constexpr bool windowed = true;
}

#if SCHEDULE == 0
#include "attention/by_warps.cu"
#elif SCHEDULE == 1
#include "attention/by_warps_backward.cu"
#elif SCHEDULE == 2
#include "attention/forward.cu"
#else
#include "attention/backward.cu"
#endif

#include "driver.h"

using namespace kittens;
using namespace tk::attention;

constexpr int schedules = 4;
constexpr bool forwards = SCHEDULE % 2 == 0;
constexpr int H = 2, N = 340, M = 480, D = 64, window = 150;
const problem p{1, H, 1, N, M, D, true, forwards ? 2.f : 0.1f, window};

mutants::given<bf16> q(H * N * D), k(M* D), v(M* D);
static int claimed_tasks;

tensor heads(std::vector<bf16>& values, int count, int rows) { return {values.data(), count * rows * D, rows * D, D}; }

#if SCHEDULE % 2 == 0
mutants::result<bf16> out(H * N * D);
mutants::result<float> lse(H* N);

static void run() {
#if SCHEDULE == 0
    forward_by_warps(p, heads(q, H, N), heads(k, 1, M), heads(v, 1, M), heads(out, H, N), lse.data(), nullptr);
#else
    forward(p, heads(q, H, N), heads(k, 1, M), heads(v, 1, M), heads(out, H, N), lse.data(), {}, &claimed_tasks,
            nullptr);
#endif
}
#else
mutants::given<bf16> out(H * N * D), dout(H * N * D);
mutants::given<float> lse(H* N, [](double x) { return x + 6; });
mutants::scratch<float> scratch(backward_scratch(p, false));
mutants::result<bf16> dq(H * N * D), dk(M* D), dv(M* D);

static void run() {
    backward(p,
             {heads(q, H, N), heads(k, 1, M), heads(v, 1, M), heads(out, H, N), lse.data(), heads(dout, H, N),
              heads(dq, H, N), heads(dk, 1, M), heads(dv, 1, M), scratch.data(), false},
             nullptr);
}
#endif
