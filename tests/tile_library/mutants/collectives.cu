// The collectives by three ranks, three launches one behind the other. SCHEDULE 0 to 4: all_gather, all_reduce in one
// shot, all_to_all, reduce_scatter, all_reduce in two. Blocks have several pieces, and the last one ends with the row.
#include "parallel/collectives.cuh"

#include "driver.h"

using namespace kittens;
using namespace tk::collectives;

constexpr int schedules = 5, ranks = 3, launches = 3, blocks = 2;
constexpr bool parts = SCHEDULE == 2 || SCHEDULE == 3, lines_up = SCHEDULE == 0 || SCHEDULE == 2;
constexpr int cols = SCHEDULE == 4 ? 99 * 512 + 40 : 33 * 512 + 40;
constexpr int in_rows = parts ? ranks : 1, out_rows = lines_up ? ranks : 1;
using kernel_t = std::conditional_t<SCHEDULE == 4, two_shot_kernel, exchange_kernel<parts, !lines_up>>;

mutants::given<bf16> in(ranks * in_rows * cols);
mutants::result<bf16> out(launches * ranks * out_rows * cols);
mutants::scratch<bf16> given(ranks * 2 * ranks * cols), sums(ranks * 2 * cols);

static void run() {
    std::vector<std::vector<int>> words(ranks, std::vector<int>(flags<most_ranks>::words_for(flag_count), 0));
    const auto of_all = [&](std::vector<bf16>& memory, int rows) {
        const auto on = [&](int rank) {
            return sets_of(memory.data() + size_t(rank % ranks) * 2 * rows * cols, 1, 2, rows, cols);
        };
        return peers<sets_of, most_ranks>{{on(0), on(1), on(2), on(3), on(4), on(5), on(6), on(7)}};
    };
    collect_launches(ranks);
    for (int i = 0; i < launches; i++)
        for (int rank = 0; rank < ranks; rank++) {
            flags<most_ranks> f{{}, rank, ranks, flag_count, nullptr};
            for (int r = 0; r < ranks; r++) f.words[r] = words[r].data();
            launch_ranks<kernel_t>({blocks, 0}, nullptr,
                                   {{in.data() + rank * in_rows * cols, 1, 1, in_rows, cols},
                                    {out.data() + (i * ranks + rank) * out_rows * cols, 1, 1, out_rows, cols},
                                    of_all(given, ranks),
                                    of_all(sums, 1),
                                    f},
                                   f);
        }
    run_collected();
}
