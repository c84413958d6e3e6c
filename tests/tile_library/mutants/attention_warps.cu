// Attention by warps, forward: causal, grouped heads, a tail of rows and of keys; the first rows see no key.
#include "attention/by_warps.cu"

#include "driver.h"

using namespace kittens;
using namespace tk::attention;

constexpr int H = 2, N = 300, M = 210, D = 64;
mutants::given<bf16> q(H * N * D), k(M* D), v(M* D);
mutants::result<bf16> out(H * N * D);
mutants::result<float> lse(H* N);

tensor heads(std::vector<bf16>& values, int count, int rows) { return {values.data(), count * rows * D, rows * D, D}; }

static void run() {
    forward_by_warps({1, H, 1, N, M, D, true, 2.f}, heads(q, H, N), heads(k, 1, M), heads(v, 1, M), heads(out, H, N),
                     lse.data(), nullptr);
}
