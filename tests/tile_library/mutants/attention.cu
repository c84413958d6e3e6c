// Attention, forward, in the template of flows: causal, grouped heads, fewer stages than tiles. SCHEDULE 0: two
// consumers, queries in registers; 1: three, which see different keys, and queries in shared memory; 2: as 0, and a
// block has many tasks of the fewest steps, and a ring for more than may be told ahead; 3: the call itself, whose first
// rows see no key.
#include "attention/forward.cu"

#include "driver.h"

using namespace kittens;
using namespace tk::attention;

constexpr int schedules = 4;
constexpr bool three = SCHEDULE == 1, many = SCHEDULE == 2, whole = SCHEDULE == 3;
// query heads, which share one key head; rows of queries and of keys
constexpr int H = many ? 24 : 2, N = three ? 400 : many ? 40 : 300, M = three ? 450 : whole ? 130 : N, D = 64;
constexpr float scale = 2.f;  // scores so far apart that the running maximum moves
constexpr config shape{
    .dim = 64, .keys = 128, .consumers = three ? 3 : 2, .stages = many ? 8 : 3, .hold_queries = !three};

mutants::given<bf16> q(H * N * D), k(M* D), v(M* D);
mutants::result<bf16> out(H * N * D);
mutants::result<float> lse(H* N);
static int claimed_tasks;

tensor heads(std::vector<bf16>& values, int count, int rows) { return {values.data(), count * rows * D, rows * D, D}; }

void run_pipeline() {
    using kernel = forward_kernel<shape>;
    using pipeline = lcf_flow<kernel>;
    constexpr int row_blocks = (N + kernel::rows - 1) / kernel::rows;
    const kernel::globals g{{heads(q, H, N), 1, H, N, D},
                            {heads(k, 1, M), 1, 1, M, D},
                            {heads(v, 1, M), 1, 1, M, D},
                            {heads(out, H, N), 1, H, N, D},
                            {lse.data(), 1, H, 1, N},
                            scale * 1.4426950408889634f,
                            {M, M - N, true},
                            {H, row_blocks, H},
                            divisor(H),
                            divisor(H),
                            {H * row_blocks, &claimed_tasks}};
    launch<clear_queue>({1, 0}, nullptr, {g.queue});
    launch<pipeline>({2, pipeline::shared_bytes, true}, nullptr, g);
}

static void run() {
    if (!whole) return run_pipeline();
    forward({1, H, 1, N, M, D, true, scale}, heads(q, H, N), heads(k, 1, M), heads(v, 1, M), heads(out, H, N),
            lse.data(), {}, &claimed_tasks, nullptr);
}
