// The seed's choices: a small generator (splitmix64) and what a run does more or less often.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace kittens::cpu {

struct options {
    uint64_t seed = 0;
    int threads = 0;          // host threads; 0: as many as the machine has
    int multiprocessors = 4;  // few, so that each block of a persistent grid has several tasks in turn
};

// Set by a program that wants other options than KITTENS_SEED, KITTENS_THREADS and KITTENS_MULTIPROCESSORS give.
inline std::optional<options> forced_options;

inline options current_options() {
    if (forced_options) return *forced_options;
    const char* seed = std::getenv("KITTENS_SEED");
    const char* threads = std::getenv("KITTENS_THREADS");
    const char* multiprocessors = std::getenv("KITTENS_MULTIPROCESSORS");
    options given;
    if (seed != nullptr) given.seed = std::strtoull(seed, nullptr, 10);
    if (threads != nullptr) given.threads = std::atoi(threads);
    if (multiprocessors != nullptr) given.multiprocessors = std::max(1, std::atoi(multiprocessors));
    return given;
}

class random {
  public:
    explicit random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }
    size_t below(size_t bound) { return next() % bound; }
    bool chance(int in_256) { return int(next() & 255) < in_256; }

  private:
    uint64_t state_;
};

// How a schedule is biased, drawn once a cluster: some schedules land everything as late as they may, some at once;
// some let a warp run long, some switch at every operation; some always prefer the same warps.
struct temper {
    int land_in_256;
    int switch_in_256;
    bool prefers;

    explicit temper(random& dice) {
        static constexpr int land[] = {0, 16, 64, 200}, change[] = {8, 64, 160};
        land_in_256 = land[dice.below(4)];
        switch_in_256 = change[dice.below(3)];
        prefers = dice.below(3) == 0;
    }
};

}  // namespace kittens::cpu
