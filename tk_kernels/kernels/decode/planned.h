// A plan in the device's memory, as the host interfaces of the kernels that follow one take it. Plain C++.
#pragma once

namespace tk::decode_plan {

// A plan (layout.h), and the scratch that it is for: `words` of counters, which are zero, and for each slot
// `rows_per_tile` rows of results with their logarithms.
struct planned {
    const int* buffer;
    int blocks, capacity, counters, slots, rows_per_tile;
    int* words;
    float *partial, *partial_lse;
};

}  // namespace tk::decode_plan
