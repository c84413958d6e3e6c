// The project's paged decode kernel: what test_decode_mutants.py changes, a line at a time. Two sequences of 620 and 40
// keys in pages of 16, whose tails are poisoned; the first one in three pieces, of which one is longer than the ring.
// Its rows are reduced by three blocks: two rows by all warps together, six by a warp each where there are eight, the
// others by warps that merge four each. The second sequence's block writes its rows itself. A second plan leaves both
// to whoever is the last, the second one's in one piece.
//
// SCHEDULE 0: 24 rows in a tile of 64, which one warpgroup multiplies. 1: 90 rows in a tile of 128, by two.
#include <cmath>
#include <vector>

#include "launch.cu"
#include "decode_mutants.h"
#include "mutants.h"

using namespace kittens;

namespace {

constexpr int groups = 1 + SCHEDULE;
constexpr int B = 2, R = groups == 1 ? 4 : 15, H = 6, D = 64, page = 16, width = 40;
constexpr int blocks = 4, capacity = 3, slots = 8, rows = 64 * groups;
constexpr int lengths[B] = {620, 40};
namespace layout = tk::decode_plan;

struct data : handwritten_plan<blocks, capacity, 3> {
    std::vector<bf16> q, k, v, out;
    std::vector<float> lse, partial, partial_lse;
    std::vector<int> table, words, plan_of_last;
    std::vector<double> expected;

    data()
        : handwritten_plan(lengths),
          q(B * R * H * D),
          k(B * width * page * D),
          v(k.size()),
          out(q.size()),
          lse(B * R * H),
          partial(slots * rows * D),
          partial_lse(slots * rows),
          table(B * width, 1 << 30),
          words(1 + blocks),
          expected(q.size()) {
        unsigned random = 1;
        for (auto* values : {&q, &k, &v})
            for (bf16& x : *values) {
                random = random * 1664525u + 1013904223u;
                x = from_float<bf16>(float(int(random >> 24) - 128) / 64.f);
            }
        for (int b = 0; b < B; b++)
            for (int i = 0; i * page < lengths[b]; i++) table[b * width + i] = i * B + b;
        for (int b = 0; b < B; b++)
            for (int token = 0; token < R; token++)
                for (int head = 0; head < H; head++) expect(b, token, head);
        for (int b = 0; b < B; b++)
            for (int key = lengths[b]; key < width * page; key++)
                for (int d = 0; d < D; d++) row(k, b, key)[d] = row(v, b, key)[d] = bf16{0x7fc0};
        using namespace layout::opcode;
        put(0, 0, attend, 0, 0, 64, 0), put(0, 1, reduce, 0, 0, 0, 0), part(0, 1, 0, 2);
        put(1, 0, attend, 0, 64, 576, 1);
        put(2, 0, attend, 1, 0, 40, -1), put(2, 1, attend, 0, 576, 620, 2);
        put(3, 0, reduce, 0, 0, 0, 0), part(3, 0, 2, 8);
        put(1, 1, reduce, 0, 0, 0, 0), part(1, 1, 8, R * H);
        plan_of_last.resize(plan.size()), plan.swap(plan_of_last);
        put(0, 0, attend, 0, 0, 64, 0), put(1, 0, attend, 0, 64, 576, 1);
        put(2, 0, attend, 0, 576, 620, 2), put(2, 1, attend, 1, 0, 40, 3);
        for (int* one : {at(0, 0), at(1, 0), at(2, 0), at(2, 1)}) leave_to_the_last(one, R * H);
        at(2, 1)[layout::field::slots] = 1;
        plan.swap(plan_of_last);
    }
    // Where a key lies: its page's number is that of the table, also behind the end.
    bf16* row(std::vector<bf16>& cache, int b, int key) {
        return &cache[((key / page * B + b) * page + key % page) * D];
    }
    void expect(int b, int token, int head) {
        const bf16* own = &q[((b * R + token) * H + head) * D];
        std::vector<double> weights(lengths[b] - (R - 1 - token));
        double total = 0, *to = &expected[((b * R + token) * H + head) * D];
        for (size_t key = 0; key < weights.size(); key++) {
            double s = 0;
            for (int d = 0; d < D; d++) s += 0.125 * to_float(own[d]) * to_float(row(k, b, int(key))[d]);
            total += weights[key] = std::exp(s);
        }
        for (size_t key = 0; key < weights.size(); key++)
            for (int d = 0; d < D; d++) to[d] += weights[key] / total * to_float(row(v, b, int(key))[d]);
    }
    double error() const { return relative_error(out, expected); }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    static data d;
    for (const auto* plan : {&d.plan, &d.plan_of_last}) {
        cpu::forced_options = cpu::options{seed, 1};
        for (bf16& x : d.out) x = bf16{0x7fc0};
        for (float& x : d.partial) x = NAN;
        for (float& x : d.partial_lse) x = NAN;
        for (int& x : d.words) x = 0;
        const auto cache = [](std::vector<bf16>& values) { return tk::tensor{values.data(), page * D, D, D}; };
        const auto run = [&] {
            tk::paged_attention_decode::launch({d.q.data(), cache(d.k), cache(d.v), d.out.data(), d.lse.data(),
                                                d.table.data(), width, B, R, H, 1, B * width, page, width, D, 0.125},
                                               {plan->data(), blocks, capacity, blocks, slots, rows, d.words.data(),
                                                d.partial.data(), d.partial_lse.data()},
                                               nullptr);
        };
        if (const int code = judged(run, [&] { return d.error(); }, 4e-3, message, size)) return code;
    }
    return 0;
}
