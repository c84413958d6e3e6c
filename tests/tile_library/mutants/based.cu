// Based: three heads in four segments each, so that there are states to hand on and a block with several tasks; fewer
// stages than steps; a tail of rows.
#include "based/based.cu"

#include "driver.h"

using namespace kittens;
using namespace tk::based;

constexpr int H = 3, N = 700, F = 16, D = 64, parts = 4;
mutants::given<bf16> q(H * N * F), k(H * N * F), v(H * N * D);
mutants::result<bf16> out(H * N * D);
mutants::result<float> last_state(H* state_elements), last_pairs(H* pair_elements);
mutants::scratch<float> between(H*(parts - 1) * (state_elements + pair_elements));

static void run() {
    const auto heads = [](std::vector<bf16>& values, int dim) {
        return tensor{values.data(), H * N * dim, N * dim, dim};
    };
    tk::based::launch({1, H, N, true}, heads(q, F), heads(k, F), heads(v, D), heads(out, D), last_state.data(),
                      last_pairs.data(), between.data(), {parts}, nullptr);
}
