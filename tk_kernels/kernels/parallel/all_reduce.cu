// The all-reduce's launch.
#include "all_reduce.cuh"

#include <stdexcept>
#include <string>

#include "all_reduce.h"

namespace tk::all_reduce {

// Two sets of a part from each rank, and of the sums.
int64_t staging_elements(int64_t numbers, int ranks) { return 2 * numbers * (ranks + 1); }
int64_t words() { return flags<most_ranks>::words_for(flag_count); }

void launch(const problem& p, way how, int blocks, void* stream) {
    if (p.ranks > most_ranks)
        throw std::invalid_argument("group: has " + std::to_string(p.ranks) + " ranks, at most " +
                                    std::to_string(most_ranks) + " are supported");
    constexpr int piece = kernel<false>::piece;
    flags<most_ranks> f{{}, p.rank, p.ranks, flag_count, stall_report()};
    for (int r = 0; r < p.ranks; r++) f.words[r] = reinterpret_cast<int*>(p.words[r]);
    // The sets lie where they lay in the launch before, whatever its numbers.
    const int64_t set = p.staging_bytes / int64_t(2 * sizeof(bf16)) / 8 * 8;
    const auto on = [&](int r, bool sums) {
        bf16* const staging = reinterpret_cast<bf16*>(p.staging[r < p.ranks ? r : 0]);
        return parts_of(staging + (sums ? p.numbers * p.ranks : 0), 1, 2, sums ? 1 : p.ranks, p.numbers, p.numbers, set,
                        2 * set);
    };
    const auto of_all = [&](bool sums) {
        return [&]<int... R>(std::integer_sequence<int, R...>) {
            return peers<parts_of, most_ranks>{{on(R, sums)...}};
        }(std::make_integer_sequence<int, most_ranks>());
    };
    const globals_t g{{static_cast<bf16*>(const_cast<void*>(p.in)), 1, 1, 1, p.numbers},
                      {static_cast<bf16*>(p.out), 1, 1, 1, p.numbers},
                      of_all(false),
                      of_all(true),
                      f,
                      int(divide_up(p.numbers, piece))};
    if (how == way::one_shot) launch_ranks<kernel<false>>({blocks, 0}, stream, g, f);
    else launch_ranks<kernel<true>>({blocks, 0}, stream, g, f);
}

void begin_world(int ranks) { collect_launches(ranks); }
void run_world() { run_collected(); }

const char* stalled() {
    static thread_local std::string words;
    words = stalled_counter();
    return words.c_str();
}

}  // namespace tk::all_reduce
