// Three products on three blocks. The first one's queue has more pages than the ring; the second's ends with a wait and
// no pages; the third's with a signal.
#include "products.cuh"

#include "driver.h"

using namespace kittens;

constexpr int blocks = 3, layers = 3, size = products::kernel<>::size;

mutants::given<bf16> weights(layers * size * size, [](double x) { return x / 16; });
mutants::given<bf16> first(16 * size);
mutants::result<bf16> x((layers + 1) * 16 * size);

static void run() {
    std::vector<int> made(blocks * layers * program::instruction_ints);
    const int rows[layers][blocks + 1] = {{0, 6, 11, 16}, {0, 15, 15, 16}, {0, 16, 16, 16}};
    for (int block = 0; block < blocks; block++)
        for (int layer = 0; layer < layers; layer++) {
            if (block == 2 && layer == 2) continue;  // a stop
            const int from = rows[layer][block], instruction[] = {1,
                                                                  layer,
                                                                  from,
                                                                  rows[layer][block + 1] - from,
                                                                  layer > 0 ? blocks : 0,
                                                                  layer + 1 < layers ? 1 : 0};
            std::copy(std::begin(instruction), std::end(instruction),
                      made.begin() + (block * layers + layer) * program::instruction_ints);
        }
    std::copy(first.begin(), first.end(), x.begin());
    std::vector<int> words(counters::words_for(layers - 1), 0);
    using kernel = interpreter<products::kernel<>>;
    launch_resident<kernel>({blocks, kernel::shared_bytes}, nullptr,
                            {{},
                             {weights.data(), 1, layers, size, size},
                             {x.data(), 1, layers + 1, 16, size},
                             {made.data(), 1, 1, blocks * layers, program::instruction_ints},
                             {words.data(), layers - 1},
                             layers});
}
