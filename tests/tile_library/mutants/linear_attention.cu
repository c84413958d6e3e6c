// Linear attention: two consumers, a decay of each step, an initial and a final state, fewer stages than chunks,
// several tasks a block, a tail of rows. SCHEDULE 0: whole sequences; 1: in three segments, by the three kernels in a
// row.
#include "linear_attention/linear_attention.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::linear_attention;

constexpr int schedules = 2;
constexpr config outputs{.keys = 64, .consumers = 2, .stages = 3, .outputs = true},
    sums{.keys = 64, .consumers = 2, .stages = 3};
constexpr int H = 4, N = SCHEDULE == 1 ? 900 : 300, D = 64;  // heads, which share one q and k
const segmentation cut(divide_up(N, chunk), SCHEDULE == 1 ? 3 : 1);

mutants::given<bf16> q(N* D), k(N* D), v(H * N * D);
mutants::given<float> decay(H* N, [](double x) { return -std::fabs(x) / 100; }), initial(H * D * D);
mutants::result<bf16> out(H * N * D);
mutants::result<float> final_states(H * D * D);
mutants::scratch<float> starts(H* cut.count * D * D), totals(H* cut.count* D);

state_matrices states_of_segments() { return {starts.data(), 1, H * (cut.count - 1), D, D}; }
state_matrices kept() { return {totals.data(), 1, H * (cut.count - 1), 1, D}; }

// The kernel over so many segments of each sequence.
template <config C> void run_segments(int segments) {
    using kernel = chunk_kernel<C>;
    using pipeline = lcsf<kernel>;
    const int pairs = H / C.consumers;
    const typename kernel::globals g{{q.data(), 1, 1, N, D},
                                     {k.data(), 1, 1, N, D},
                                     {v.data(), 1, H, N, D},
                                     {out.data(), 1, H, N, D},
                                     {decays::per_step,
                                      N,
                                      nullptr,
                                      nullptr,
                                      false,
                                      false,
                                      {decay.data(), 1, H, 1, N},
                                      {nullptr, 1, 1, N, H},
                                      {nullptr, 1, 1, N, H}},
                                     -0.5f,
                                     false,
                                     {nullptr, 1, 1, H, 1},
                                     {{initial.data(), 1, H, D, D}, false},
                                     {{final_states.data(), 1, H, D, D}, false},
                                     states_of_segments(),
                                     kept(),
                                     {divisor(1)},
                                     {divisor(pairs), divisor(segments), divisor(H), pairs * segments, cut}};
    launch<pipeline>({cut.count == 1 ? 1 : pairs * segments, pipeline::shared_bytes, false, 1, cut.count == 1}, nullptr,
                     g);
}

static void run() {
    if (cut.count > 1) {
        run_segments<sums>(cut.count - 1);
        carry_states<D>(H, nullptr,
                        {{{initial.data(), 1, H, D, D}, false},
                         states_of_segments(),
                         kept(),
                         {divisor(1)},
                         divisor(H),
                         cut.count - 1});
    }
    run_segments<outputs>(cut.count);
}
