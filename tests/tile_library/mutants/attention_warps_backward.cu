// Attention's backward pass by warps: causal, grouped heads, tails of rows and of keys. SCHEDULE 0: with sums of dQ; 1:
// where results must repeat, and the first rows see no key; 2: with sums of dQ at dim 128.
#include "attention/by_warps_backward.cu"

#include "driver.h"

using namespace kittens;
using namespace tk::attention;

constexpr int schedules = 3;
constexpr bool repeats = SCHEDULE == 1;
constexpr int H = 2, rows = repeats ? 300 : 70, rows_kv = repeats ? 170 : 300, D = SCHEDULE == 2 ? 128 : 64;

mutants::given<bf16> q(H * rows * D), k(rows_kv* D), v(rows_kv* D), out(H * rows * D), dout(H * rows * D);
mutants::given<float> lse(H* rows, [](double x) { return x + 6; });
mutants::result<bf16> dq(H * rows * D), dk(rows_kv* D), dv(rows_kv* D);

tensor queries(std::vector<bf16>& values) { return {values.data(), H * rows * D, rows * D, D}; }
tensor keys(std::vector<bf16>& values) { return {values.data(), rows_kv * D, rows_kv * D, D}; }

static void run() {
    const problem p{1, H, 1, rows, rows_kv, D, true, 0.1f};
    std::vector<float> scratch(backward_scratch(p, repeats), NAN);
    backward(p,
             {queries(q), keys(k), keys(v), queries(out), lse.data(), queries(dout), queries(dq), keys(dk), keys(dv),
              scratch.data(), repeats},
             nullptr);
}
