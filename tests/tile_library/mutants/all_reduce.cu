// The all-reduce by three ranks, two launches one behind the other; SCHEDULE 0: one-shot; 1: two-shot. Each rank's two
// blocks have several pieces of each share, and the last piece ends with the tensor.
#include "parallel/all_reduce.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::all_reduce;

constexpr int schedules = 2, ranks = 3, launches = 3, blocks = 2;
constexpr int numbers = SCHEDULE == 0 ? 33 * 512 + 40 : 99 * 512 + 40;

mutants::given<bf16> in(ranks* numbers);
mutants::result<bf16> out(launches * ranks * numbers);
mutants::scratch<bf16> given(ranks * 2 * ranks * numbers), sums(ranks * 2 * numbers);

static void run() {
    std::vector<std::vector<int>> words(ranks, std::vector<int>(flags<most_ranks>::words_for(flag_count), 0));
    const auto on = [&](std::vector<bf16>& memory, int rank, int parts) {
        return parts_of(memory.data() + size_t(rank % ranks) * 2 * parts * numbers, 1, 2, parts, numbers);
    };
    const auto of_all = [&](std::vector<bf16>& memory, int parts) {
        return peers<parts_of, most_ranks>{{on(memory, 0, parts), on(memory, 1, parts), on(memory, 2, parts),
                                            on(memory, 3, parts), on(memory, 4, parts), on(memory, 5, parts),
                                            on(memory, 6, parts), on(memory, 7, parts)}};
    };
    collect_launches(ranks);
    for (int i = 0; i < launches; i++)
        for (int rank = 0; rank < ranks; rank++) {
            flags<most_ranks> f{{}, rank, ranks, flag_count, nullptr};
            for (int r = 0; r < ranks; r++) f.words[r] = words[r].data();
            launch_ranks<kernel<SCHEDULE == 1>>({blocks, 0}, nullptr,
                                                {{in.data() + rank * numbers, 1, 1, 1, numbers},
                                                 {out.data() + (i * ranks + rank) * numbers, 1, 1, 1, numbers},
                                                 of_all(given, ranks),
                                                 of_all(sums, 1),
                                                 f,
                                                 divide_up(numbers, kernel<true>::piece)},
                                                f);
        }
    run_collected();
}
