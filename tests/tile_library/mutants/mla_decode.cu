// MLA decode: sequences of 230, 40 and no keys in pages of 16, whose tails are poisoned; two new tokens. The first
// sequence is in two pieces: one of three steps, which ends inside a step, and one whose last keys are a tail. Its rows
// are reduced by two blocks, few by all warps together and the others by a warp each. A second plan cuts the second
// sequence too, and leaves both to whoever is the last.
#include "decode/mla_launch.cuh"

#include "driver.h"
#include "decode.h"

using namespace kittens;

constexpr int B = 3, R = 2, H = 3, D = tk::mla_decode::width, page = 16, width = 20;
constexpr int blocks = 2, capacity = 3, slots = 4, rows = plan::mla_rows_per_tile;
constexpr int lengths[B] = {230, 40, 0};

mutants::given<bf16> q(B * R * H * D);
pages<page, width, B, D> cache(lengths);
mutants::result<bf16> out(2 * B * R * H * tk::mla_decode::latent);
mutants::result<float> lse(2 * B * H * R);
mutants::scratch<float> partial(slots * rows * tk::mla_decode::latent), partial_weights(2 * slots * rows);

using plan_of_both = handwritten_plan<blocks, capacity, 2>;
plan_of_both reduces(plan_of_both made) {
    using namespace plan::opcode;
    made.put(0, 0, attend, 0, 0, 160, 0), made.put(0, 1, attend, 1, 0, 40, -1), made.put(0, 2, reduce, 0, 0, 0, 0);
    made.put(1, 0, attend, 2, 0, 0, -1), made.put(1, 1, attend, 0, 160, 230, 1), made.put(1, 2, reduce, 0, 0, 0, 0);
    made.part(0, 2, 0, 2), made.part(1, 2, 2, R * H);
    return made;
}
plan_of_both last_reduces(plan_of_both made) {
    using namespace plan::opcode;
    made.put(0, 0, attend, 0, 0, 160, 0), made.put(0, 1, attend, 1, 0, 32, 2);
    made.put(1, 0, attend, 2, 0, 0, -1), made.put(1, 1, attend, 0, 160, 230, 1), made.put(1, 2, attend, 1, 32, 40, 3);
    for (int* one : {made.at(0, 0), made.at(0, 1), made.at(1, 1), made.at(1, 2)}) made.leave_to_the_last(one, R * H);
    return made;
}

static void run() {
    const std::vector<int> table = cache.table(lengths);
    const plan_of_both plans[] = {reduces(plan_of_both(lengths)), last_reduces(plan_of_both(lengths))};
    for (size_t i = 0; i < 2; i++) {
        std::vector<int> words(1 + blocks, 0);
        tk::mla_decode::launch_of<page, unrecorded>({q.data(),
                                                     {cache.data(), page * D, D, D},
                                                     {},
                                                     out.data() + i * out.size() / 2,
                                                     lse.data() + i * lse.size() / 2,
                                                     table.data(),
                                                     width,
                                                     B,
                                                     R,
                                                     H,
                                                     1,
                                                     B * width,
                                                     page,
                                                     width,
                                                     D,
                                                     0.05},
                                                    {plans[i].data(), blocks, capacity, blocks, slots, rows,
                                                     words.data(), partial.data(), partial_weights.data()},
                                                    nullptr, {});
    }
}
