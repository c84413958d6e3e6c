// What a kernel's program of mutants is made of. A driver declares its operands as `given`, `result` and `scratch`, and
// defines run(), which launches the kernel on them, or several one behind the other. Their sizes are the smallest at
// which everything happens: several tasks a block, more steps than stages, tails in every dimension.
//
// The program is given the number of a mistake and of seeds. It prints a line a seed: `right`, or `report` and the cpu
// target's message, or `numbers` and how far they are from those of the kernel itself. Mistake 0 is none: then it also
// prints the numbers of the mistakes that could have made a difference.
//
// A kernel in several forms, which have places of their own: `constexpr int schedules = 4;`, and the driver is compiled
// with SCHEDULE from 0 to 3.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

static void run();

namespace mutants {

using kittens::bf16;
using kittens::from_float;
using kittens::to_float;

inline std::vector<std::function<void()>> before;                  // each run: fills operands
inline std::vector<std::function<std::vector<float>()>> compared;  // behind it: the values of results

// Numbers in [-2, 2), or f of them.
template <typename T> struct given : std::vector<T> {
    explicit given(size_t count, double f(double) = [](double x) { return x; }) : std::vector<T>(count) {
        static unsigned state = 1;
        for (T& x : *this) {
            state = state * 1664525u + 1013904223u;
            x = from_float<T>(float(f(double(int(state >> 24) - 128) / 64)));
        }
    }
};

// What the kernel writes and somebody reads only behind it: in between a run finds no number there.
template <typename T> struct scratch : std::vector<T> {
    explicit scratch(size_t count) : std::vector<T>(count) {
        before.push_back([this] { this->assign(this->size(), from_float<T>(NAN)); });
    }
};

// The same, compared with what the kernel itself writes.
template <typename T> struct result : scratch<T> {
    explicit result(size_t count) : scratch<T>(count) {
        compared.push_back([this] {
            std::vector<float> values;
            for (const T& x : *this) values.push_back(to_float(x));
            return values;
        });
    }
};

// The message of a report; empty: there is none.
inline std::string report(unsigned long long seed) {
    for (const auto& fill : before) fill();
    kittens::cpu::forced_options = kittens::cpu::options{seed, 1};
    try {
        run();
        return "";
    } catch (const kittens::error& found) {
        return found.what();
    }
}

// The largest difference, in units of the expected number and the root of their mean square.
inline double difference(const std::vector<float>& found, const std::vector<float>& expected) {
    double squares = 0, largest = 0;
    size_t finite = 0;
    for (float x : expected)
        if (std::isfinite(x)) squares += double(x) * x, finite++;
    const double size = std::sqrt(squares / std::max(finite, size_t(1)));
    for (size_t i = 0; i < expected.size(); i++) {
        if (found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) continue;
        const double by = std::abs(double(found[i]) - expected[i]) / (std::abs(double(expected[i])) + size);
        largest = std::max(largest, std::isnan(by) ? INFINITY : by);
    }
    return largest;
}

}  // namespace mutants

int main(int, char** arguments) {
    using namespace mutants;
    // What a sum in another order may change: a rounding, 1/256 of a bf16.
    constexpr double bound = 1. / 64;
    std::vector<std::vector<float>> expected;
    if (const std::string found = report(0); !found.empty())
        return std::printf("the kernel itself: %s\n", found.c_str()), 1;
    for (const auto& values : compared) expected.push_back(values());
    made_number = std::atoi(arguments[1]);
    for (int seed = 0; seed < std::atoi(arguments[2]); seed++) {
        std::string found = report(seed);
        double largest = 0;
        for (size_t i = 0; i < expected.size() && found.empty(); i++)
            largest = std::max(largest, difference(compared[i](), expected[i]));
        for (char& c : found)
            if (c == '\n') c = ' ';
        if (!found.empty()) std::printf("report %s\n", found.c_str());
        else if (largest < bound) std::printf("right\n");
        else std::printf("numbers differ by %g\n", largest);
        std::fflush(stdout);
    }
    if (made_number == 0)
        for (int i = 1; i <= mistakes; i++)
            if (matters[i]) std::printf("%d\n", i);
}
