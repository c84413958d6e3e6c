// Three tokens of a Llama: two by one launch, then one by another. Heads are normed and biased, widths end inside a
// page, runs end inside a row block; what lies behind a sequence's end is no number. Every eighth token has the same
// logit, in a row block, a block and the launch, or twice that. Schedule 0 has three sequences, whose keys are attended
// by a block each; schedule 1 has one, whose keys are attended in three parts of several pages. Maxima move within a
// part and from part to part. Schedule 2 is a model so small that a block has less pages a token than the ring; its
// keys go to other blocks when the second token begins a page.
#include "llama_decode/launch.cuh"

#include "driver.h"
#include "llama_decode/plan.h"

using namespace kittens;
namespace llama = tk::llama_decode;

constexpr int schedules = 3;
constexpr int most = 2, launches = 2, K = 1, D = 64;
constexpr bool tiny = SCHEDULE == 2;
constexpr int B = SCHEDULE == 0 ? 3 : 1, N = SCHEDULE == 0 ? 192 : tiny ? 1344 : 640;
constexpr int L = tiny ? 1 : 2, W = tiny ? 64 : 640, F = tiny ? 64 : 576, H = tiny ? 1 : 3, V = tiny ? 80 : 96;
constexpr int alike = tiny ? 3 : 8, blocks = tiny ? 5 : 3, rows = (H + 2 * K) * D;
constexpr int first_positions[] = {SCHEDULE == 0 ? 150 : tiny ? 1279 : 600, 20, 0};

double small(double x) { return x / 16; }
double near_one(double x) { return 1 + x / 8; }

mutants::given<bf16> embedding(V* W), qkv(L * rows * W, small), out(L * W * H * D, small), gate(L * F * W, small),
    up(L * F * W, small), down(L * W * F, small), head(V* W, small), norms((2 * L + 1) * W, near_one), bias(L* rows),
    head_norms(2 * L * D, near_one), drawn(2 * L * B * K * N * D);
mutants::given<float> cosine(N* D / 2), sine(N* D / 2);
mutants::result<bf16> k(L * B * K * N * D), v(L * B * K * N * D);
mutants::result<float> logits(launches * B * V), chosen(launches * B * most);

static std::vector<int> program_of() {
    std::vector<int> made(llama::header_ints);
    const int header[] = {0, blocks, 0, 0, L, W, F, H, K, D, V, B};
    std::copy(std::begin(header), std::end(header), made.begin());
    llama::make(made);
    made.resize(llama::header_ints + std::size_t(blocks) * made[llama::header::capacity] * llama::instruction_ints);
    llama::make(made);
    return made;
}

static void run() {
    cpu::forced_options->multiprocessors = std::max(blocks, 4);
    const std::vector<int> program = program_of();
    const llama::shape s(program.data());
    std::vector<int> words(counters::words_for(program[llama::header::counters]), 0);
    for (std::size_t i = 0; i < k.size(); i++) {
        const int position = int(i) / D % N, sequence = int(i) / D / N % B;
        const float size = position / 64 % 2 ? 2 : 0.25f;  // of keys
        const bool seen = position < first_positions[sequence];
        k[i] = from_float<bf16>(seen ? size * to_float(drawn[i]) : NAN);
        v[i] = from_float<bf16>(seen ? to_float(drawn[k.size() + i]) : NAN);
    }
    const float larger[] = {1, 1, SCHEDULE == 0 ? 2 : 1, 2, 2, 1};  // row blocks, of which a block has two
    for (std::size_t i = alike * W; i < head.size(); i++)
        head[i] = from_float<bf16>(larger[i / (16 * W)] * to_float(head[i % (alike * W)]));
    std::vector<float> scratch(s.floats(), 0.f);
    for (int launch = 0, done = 0; launch < launches; launch++) {
        const int rounds = launch == 0 ? most : 1;
        int positions[B], of[B], found[B * most];
        for (int b = 0; b < B; b++) positions[b] = first_positions[b] + done, of[b] = 5 + 20 * b + launch;
        llama::launch_of<llama::token<D, B == 1 ? 1 : 8, 4>>({qkv.data(),
                                                              out.data(),
                                                              gate.data(),
                                                              up.data(),
                                                              down.data(),
                                                              head.data(),
                                                              k.data(),
                                                              v.data(),
                                                              embedding.data(),
                                                              norms.data(),
                                                              bias.data(),
                                                              head_norms.data(),
                                                              cosine.data(),
                                                              sine.data(),
                                                              positions,
                                                              of,
                                                              logits.data() + launch * B * V,
                                                              found,
                                                              scratch.data(),
                                                              program.data(),
                                                              words.data(),
                                                              N,
                                                              1e-5,
                                                              rounds,
                                                              2,
                                                              4},
                                                             program, nullptr);
        done += rounds;
        for (int i = 0; i < B * rounds; i++) chosen[launch * B * most + i] = float(found[i]);
    }
}
