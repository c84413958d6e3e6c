// The program of two operations: three strips of 9, 3 and 2 tiles. Block 0 runs further ahead than the ring is long;
// block 1 goes on behind a combine; block 2 ends with one.
#include "program.cuh"

#include "driver.h"

using namespace kittens;

constexpr int blocks = 3, per_block = 3, strips = 3, tiles = 9, slots = 6;

mutants::given<bf16> in(strips * tiles * 64 * 64);
mutants::result<bf16> out(strips * 64 * 64);
mutants::scratch<float> sums(slots * 64 * 64);

struct program_of_strips : std::vector<int> {
    program_of_strips() : std::vector<int>(program::header_ints + blocks * per_block * program::instruction_ints) {
        using namespace toy::opcode;
        put(0, 0, {add_up, 0, 0, 5, 0, 0, 0}), put(0, 1, {add_up, 1, 0, 1, 2, 0, 1}),
            put(0, 2, {add_up, 2, 0, 1, 4, 0, 2});
        put(1, 0, {add_up, 0, 5, 9, 1, 0, 0}), put(1, 1, {combine, 1, 0, 0, 2, 2, 1}),
            put(1, 2, {add_up, 2, 1, 2, 5, 0, 2});
        put(2, 0, {add_up, 1, 1, 3, 3, 0, 1}), put(2, 1, {combine, 0, 0, 0, 0, 2, 0});
        put(2, 2, {combine, 2, 0, 0, 4, 2, 2});
    }
    void put(int block, int n, std::vector<int> one) {
        std::copy(one.begin(), one.end(),
                  begin() + program::header_ints + (block * per_block + n) * program::instruction_ints);
    }
};

static void run() {
    const program_of_strips made;
    std::vector<int> words(counters::words_for(strips), 0);
    using kernel = toy::kernel<>;
    launch_resident<kernel>({blocks, kernel::shared_bytes}, nullptr,
                            {{},
                             {in.data(), 1, 1, tiles * 64, strips * 64},
                             {out.data(), 1, 1, 64, strips * 64},
                             {sums.data(), 1, slots, 64, 64},
                             {made.data() + program::header_ints, 1, 1, blocks * per_block, program::instruction_ints},
                             {words.data(), strips},
                             0.5f,
                             per_block});
}
