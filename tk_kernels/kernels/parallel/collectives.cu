// The collectives' launch.
#include "collectives.cuh"

#include <stdexcept>
#include <string>

#include "collectives.h"

namespace tk::collectives {

// Two sets of a row from each rank, and of one of sums.
int64_t staging_bytes_for(int64_t cols, int ranks) { return 2 * cols * (ranks + 1) * int64_t(sizeof(bf16)); }
int64_t words() { return flags<most_ranks>::words_for(flag_count); }

void launch(const problem& p, int blocks, void* stream) {
    if (p.ranks > most_ranks)
        throw std::invalid_argument("group: has " + std::to_string(p.ranks) + " ranks, at most " +
                                    std::to_string(most_ranks) + " are supported");
    flags<most_ranks> f{{}, p.rank, p.ranks, flag_count, stall_report()};
    for (int r = 0; r < p.ranks; r++) f.words[r] = reinterpret_cast<int*>(p.words[r]);
    // The sets lie where they lay in the launch before, whatever its columns.
    const int64_t set = p.staging_bytes / int64_t(2 * sizeof(bf16)) / 8 * 8;
    const auto on = [&](int r, bool sums) {
        bf16* const staging = reinterpret_cast<bf16*>(p.staging[r < p.ranks ? r : 0]);
        return sets_of(staging + (sums ? p.cols * p.ranks : 0), 1, 2, sums ? 1 : p.ranks, p.cols, p.cols, set, 2 * set);
    };
    const auto of_all = [&](bool sums) {
        return [&]<int... R>(std::integer_sequence<int, R...>) {
            return peers<sets_of, most_ranks>{{on(R, sums)...}};
        }(std::make_integer_sequence<int, most_ranks>());
    };
    const bool parts = p.collective == what::reduce_scatter || p.collective == what::all_to_all;
    const bool lines_up = p.collective == what::all_gather || p.collective == what::all_to_all;
    const globals_t g{{static_cast<bf16*>(const_cast<void*>(p.in)), 1, 1, parts ? p.ranks : 1, p.cols},
                      {static_cast<bf16*>(p.out), 1, 1, lines_up ? p.ranks : 1, p.cols},
                      of_all(false),
                      of_all(true),
                      f};
    const auto run = [&]<typename Kernel>() { launch_ranks<Kernel>({blocks, 0}, stream, g, f); };
    switch (p.collective) {
        case what::all_reduce: return run.operator()<exchange_kernel<false, true>>();
        case what::all_reduce_in_two: return run.operator()<two_shot_kernel>();
        case what::all_gather: return run.operator()<exchange_kernel<false, false>>();
        case what::reduce_scatter: return run.operator()<exchange_kernel<true, true>>();
        case what::all_to_all: return run.operator()<exchange_kernel<true, false>>();
    }
}

void begin_world(int ranks) { collect_launches(ranks); }
void run_world() { run_collected(); }
std::string stalled() { return stalled_counter(); }

}  // namespace tk::collectives
