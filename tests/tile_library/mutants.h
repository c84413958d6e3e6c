// What the programs of mutants share: how far off a result is, and how a run is told to Python.
#pragma once

#include <cmath>
#include <cstdio>
#include <vector>

// ||found - expected|| / ||expected||
template <typename T> double relative_error(const std::vector<kittens::bf16>& found, const std::vector<T>& expected) {
    double wrong = 0, all = 0;
    for (size_t i = 0; i < expected.size(); i++) {
        const double wanted = expected[i], difference = kittens::to_float(found[i]) - wanted;
        wrong += difference * difference;
        all += wanted * wanted;
    }
    return std::sqrt(wrong / all);
}

// 0: right; 1: `message` is the cpu target's report; 2: wrong numbers, an `error` of `bound` or more, without a report.
template <typename Run, typename Error> int judged(Run run, Error error, double bound, char* message, int size) {
    try {
        run();
    } catch (const kittens::error& found) {
        std::snprintf(message, size, "%s", found.what());
        return 1;
    }
    const double found = error();
    if (found < bound) return 0;
    std::snprintf(message, size, "relative error %g", found);
    return 2;
}
