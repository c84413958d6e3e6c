// The products of mutants/products.cuh, recorded or not, and the check of their programs.
#include "guarded.h"
#include "mutants/products.cuh"

using namespace kittens;

#define EXPORT extern "C" __attribute__((visibility("default")))

// Of a log that is null nothing is recorded.
EXPORT int run_products(void* weights, void* x, void* words, void* queues, int layers, int blocks, int capacity,
                        void* log, char* message, int size) {
    return guarded(
        [&] {
            const auto run = [&]<typename Recorder>(const typename Recorder::where& to) {
                using kernel = interpreter<products::kernel<Recorder>, Recorder>;
                constexpr int n = products::kernel<Recorder>::size;
                launch_resident<kernel>(
                    {blocks, kernel::shared_bytes}, nullptr,
                    {to,
                     {static_cast<bf16*>(weights), 1, layers, n, n},
                     {static_cast<bf16*>(x), 1, layers + 1, 16, n},
                     {static_cast<const int*>(queues), 1, 1, blocks * capacity, program::instruction_ints},
                     {static_cast<int*>(words), layers - 1},
                     capacity});
            };
            if (log == nullptr) run.operator()<unrecorded>({});
            else run.operator()<recorded<3>>({static_cast<std::uint64_t*>(log), capacity});
        },
        message, size);
}

EXPORT int check_products(const int* buffer, char* message, int size) {
    return std::snprintf(message, size, "%s", program::check(buffer, products::exchange_of).c_str()) > 0;
}
