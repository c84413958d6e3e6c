// The program of two operations (mutants/program.cuh), timed and recorded, and the check of programs of any counters.
#include "guarded.h"
#include "mutants/program.cuh"

using namespace kittens;

#define EXPORT extern "C" __attribute__((visibility("default")))

template <typename Recorder>
static void start(void* in, void* out, void* sums, void* words, void* queues, int rows, int strips, int slots,
                  int blocks, int capacity, const typename Recorder::where& to) {
    using kernel = toy::kernel<Recorder>;
    launch_resident<kernel>({blocks, kernel::shared_bytes}, nullptr,
                            {to,
                             {static_cast<bf16*>(in), 1, 1, rows, strips * 64},
                             {static_cast<bf16*>(out), 1, 1, 64, strips * 64},
                             {static_cast<float*>(sums), 1, slots, 64, 64},
                             {static_cast<const int*>(queues), 1, 1, blocks * capacity, program::instruction_ints},
                             {static_cast<int*>(words), strips},
                             0.5f,
                             capacity});
}

// Of a log that is null nothing is recorded.
EXPORT int run_program(void* in, void* out, void* sums, void* words, void* queues, int rows, int strips, int slots,
                       int blocks, int capacity, void* log, char* message, int size) {
    return guarded(
        [&] {
            const auto run = [&]<typename Recorder>(const typename Recorder::where& to) {
                start<Recorder>(in, out, sums, words, queues, rows, strips, slots, blocks, capacity, to);
            };
            if (log == nullptr) run.operator()<unrecorded>({});
            else run.operator()<recorded<2>>({static_cast<std::uint64_t*>(log), capacity});
        },
        message, size);
}

// Instructions say in their ints 1 to 5 what they exchange.
EXPORT int check_program(const int* buffer, char* message, int size) {
    const auto exchange_of = [](const int* one) { return program::exchange{one[1], one[2], one[3], one[4], one[5]}; };
    return std::snprintf(message, size, "%s", program::check(buffer, exchange_of).c_str()) > 0;
}
// The same of the program of two operations.
EXPORT int check_strips(const int* buffer, char* message, int size) {
    return std::snprintf(message, size, "%s", program::check(buffer, toy::exchange_of).c_str()) > 0;
}
