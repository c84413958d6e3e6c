// Paged decode with grouped heads: sequences of 1132 and 40 keys in pages of 16, whose tails are poisoned. The first
// one is in three pieces, of which one is longer than the ring. Its rows are reduced by three blocks: two rows by all
// warps together, six by a warp each where there are eight, the others by warps that merge four each. The second
// sequence's block writes its rows itself. A second plan leaves both to whoever is the last, the second one's in one
// piece. SCHEDULE 0: 24 rows in a tile of 64, which one warpgroup multiplies. 1: 90 rows in a tile of 128, by two.
#include "decode/paged_launch.cu"

#include "driver.h"
#include "decode.h"

using namespace kittens;

constexpr int schedules = 2;
constexpr int groups = 1 + SCHEDULE;
constexpr int B = 2, R = groups == 1 ? 4 : 15, H = 6, D = 64, page = 16, width = 72;
constexpr int blocks = 4, capacity = 3, slots = 8, rows = 64 * groups;
constexpr int lengths[B] = {1132, 40};

mutants::given<bf16> q(B * R * H * D);
pages<page, width, B, D> k(lengths), v(lengths);
mutants::result<bf16> out(2 * B * R * H * D);
mutants::result<float> lse(2 * B * R * H);
mutants::scratch<float> partial(slots * rows * D), partial_weights(2 * slots * rows);

using plan_of_both = handwritten_plan<blocks, capacity, 3>;
plan_of_both reduces(plan_of_both made) {
    using namespace plan::opcode;
    made.put(0, 0, attend, 0, 0, 64, 0), made.put(0, 1, reduce, 0, 0, 0, 0), made.part(0, 1, 0, 2);
    made.put(1, 0, attend, 0, 64, 1088, 1), made.put(1, 1, reduce, 0, 0, 0, 0), made.part(1, 1, 8, R * H);
    made.put(2, 0, attend, 1, 0, 40, -1), made.put(2, 1, attend, 0, 1088, 1132, 2);
    made.put(3, 0, reduce, 0, 0, 0, 0), made.part(3, 0, 2, 8);
    return made;
}
plan_of_both last_reduces(plan_of_both made) {
    using namespace plan::opcode;
    made.put(0, 0, attend, 0, 0, 64, 0), made.put(1, 0, attend, 0, 64, 1088, 1);
    made.put(2, 0, attend, 0, 1088, 1132, 2), made.put(2, 1, attend, 1, 0, 40, 3);
    for (int* one : {made.at(0, 0), made.at(1, 0), made.at(2, 0), made.at(2, 1)}) made.leave_to_the_last(one, R * H);
    made.at(2, 1)[plan::field::slots] = 1;
    return made;
}

static void run() {
    const std::vector<int> table = k.table(lengths);
    const plan_of_both plans[] = {reduces(plan_of_both(lengths)), last_reduces(plan_of_both(lengths))};
    const auto tensor_of = [](std::vector<bf16>& values) { return tk::tensor{values.data(), page * D, D, D}; };
    for (size_t i = 0; i < 2; i++) {
        std::vector<int> words(1 + blocks, 0);
        tk::paged_attention_decode::launch(
            {q.data(), tensor_of(k), tensor_of(v), out.data() + i * out.size() / 2, lse.data() + i * lse.size() / 2,
             table.data(), width, B, R, H, 1, B * width, page, width, D, 0.15},
            {plans[i].data(), blocks, capacity, blocks, slots, rows, words.data(), partial.data(),
             partial_weights.data()},
            nullptr);
    }
}
