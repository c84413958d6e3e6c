// MLA decode: what test_decode_mutants.py changes. Sequences of 230, 40 and no keys in pages of 16,
// whose tails are poisoned; two new tokens. The first sequence is in two pieces: one of three steps, which ends inside
// a step, and one whose last keys are a tail. Its rows are reduced by two blocks, few by all warps together and the
// others by a warp each. Every other 64 keys are twice as large, so that maxima move and stay. A second plan cuts the
// second sequence too, and leaves both to whoever is the last.
#include <cmath>
#include <vector>

#include "launch.cuh"
#include "decode_mutants.h"
#include "mutants.h"

using namespace kittens;

namespace {

namespace layout = tk::decode_plan;
using tk::mla_decode::latent;
constexpr int B = 3, R = 2, H = 3, D = tk::mla_decode::width, page = 16, width = 20;
constexpr int blocks = 2, capacity = 3, slots = 4, rows = layout::mla_rows_per_tile;
constexpr int lengths[B] = {230, 40, 0};
constexpr double scale = 0.05;

struct data : handwritten_plan<blocks, capacity, 2> {
    std::vector<bf16> q, cache, out;
    std::vector<float> lse, partial, partial_lse;
    std::vector<int> table, words, plan_of_last;
    std::vector<double> expected, expected_lse;

    data()
        : handwritten_plan(lengths),
          q(B * R * H * D),
          cache(B * width * page * D),
          out(B * R * H * latent),
          lse(B * H * R),
          partial(slots * rows * latent),
          partial_lse(slots * rows),
          table(B * width, 1 << 30),
          words(1 + blocks),
          expected(out.size()),
          expected_lse(lse.size()) {
        unsigned random = 1;
        const auto draw = [&] { return float(int((random = random * 1664525u + 1013904223u) >> 24) - 128) / 64.f; };
        for (bf16& x : q) x = from_float<bf16>(draw());
        for (int b = 0; b < B; b++)
            for (int key = 0; key < width * page; key++)
                for (int d = 0; d < D; d++)
                    row(b, key)[d] = key < lengths[b] ? from_float<bf16>(draw() * (1 + key / 64 % 2)) : bf16{0x7fc0};
        for (int b = 0; b < B; b++)
            for (int i = 0; i * page < lengths[b]; i++) table[b * width + i] = i * B + b;
        for (int b = 0; b < B; b++)
            for (int token = 0; token < R; token++)
                for (int head = 0; head < H; head++) expect(b, token, head);
        using namespace layout::opcode;
        put(0, 0, attend, 0, 0, 160, 0), put(0, 1, attend, 1, 0, 40, -1), put(0, 2, reduce, 0, 0, 0, 0);
        put(1, 0, attend, 2, 0, 0, -1), put(1, 1, attend, 0, 160, 230, 1), put(1, 2, reduce, 0, 0, 0, 0);
        part(0, 2, 0, 2), part(1, 2, 2, R * H);
        plan_of_last.resize(plan.size()), plan.swap(plan_of_last);
        put(0, 0, attend, 0, 0, 160, 0), put(0, 1, attend, 1, 0, 32, 2);
        put(1, 0, attend, 2, 0, 0, -1), put(1, 1, attend, 0, 160, 230, 1), put(1, 2, attend, 1, 32, 40, 3);
        for (int* one : {at(0, 0), at(0, 1), at(1, 1), at(1, 2)}) leave_to_the_last(one, R * H);
        plan.swap(plan_of_last);
    }
    // Where a key lies: its page's number is that of the table, also behind the end.
    bf16* row(int b, int key) { return &cache[((key / page * B + b) * page + key % page) * D]; }
    void expect(int b, int token, int head) {
        const bf16* own = &q[((b * R + token) * H + head) * D];
        std::vector<double> weights(std::max(0, lengths[b] - (R - 1 - token)));
        double total = 0, *to = &expected[((b * R + token) * H + head) * latent];
        for (size_t key = 0; key < weights.size(); key++) {
            double s = 0;
            for (int d = 0; d < D; d++) s += scale * to_float(own[d]) * to_float(row(b, int(key))[d]);
            total += weights[key] = std::exp(s);
        }
        for (size_t key = 0; key < weights.size(); key++)
            for (int d = 0; d < latent; d++) to[d] += weights[key] / total * to_float(row(b, int(key))[d]);
        expected_lse[(b * H + head) * R + token] = std::log(total);
    }
    // ||out - expected|| / ||expected|| of the worst row; 1 where a logarithm is wrong or a row of nothing not zero.
    double error() const {
        double worst = 0;
        for (size_t i = 0; i < expected.size(); i += latent) {
            double wrong = 0, all = 0;
            for (int d = 0; d < latent; d++) {
                const double difference = to_float(out[i + d]) - expected[i + d];
                wrong += difference * difference;
                all += expected[i + d] * expected[i + d];
            }
            if (all == 0 && wrong == 0) continue;
            const double of_row = std::sqrt(wrong / all);
            if (!(of_row < worst)) worst = of_row;
        }
        for (size_t i = 0; i < lse.size(); i++)
            if (!(lse[i] == expected_lse[i] || std::abs(lse[i] - expected_lse[i]) < 1e-3)) return 1;
        return worst;
    }
};

}  // namespace

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, without a report.
extern "C" __attribute__((visibility("default"))) int run_mutant(unsigned long long seed, char* message, int size) {
    static data d;
    for (const auto* plan : {&d.plan, &d.plan_of_last}) {
        cpu::forced_options = cpu::options{seed, 1};
        for (bf16& x : d.out) x = bf16{0x7fc0};
        for (auto* values : {&d.lse, &d.partial, &d.partial_lse})
            for (float& x : *values) x = NAN;
        for (int& x : d.words) x = 0;
        const auto run = [&] {
            tk::mla_decode::launch_of<page, layout::unrecorded>(
                {d.q.data(),
                 {d.cache.data(), page * D, D, D},
                 d.out.data(),
                 d.lse.data(),
                 d.table.data(),
                 width,
                 B,
                 R,
                 H,
                 B * width,
                 page,
                 width,
                 scale},
                {plan->data(), blocks, capacity, blocks, slots, rows, d.words.data(), d.partial.data(),
                 d.partial_lse.data()},
                nullptr, {});
        };
        if (const int code = judged(run, [&] { return d.error(); }, 8e-3, message, size)) return code;
    }
    return 0;
}
