// sm_90a: register lines, the type of kernels that stream rows: nothing is multiplied, every byte is moved once.
#pragma once

#include "kittens/target/sm_90a/memory.cuh"
#include "kittens/target/sm_90a/sync.cuh"

namespace kittens {

// Rows x Cols elements of which each lane holds runs of Run neighbours in a row, so that 16 bytes move at a time: run u of
// lane l is the (32 u + l)-th of the rows' runs, one row after the other.
template <typename T_, int Rows, int Cols, int Run = 8> struct rl {
    using T = T_;
    static constexpr int rows = Rows, cols = Cols, run = Run;
    static_assert(Run == 4 || Run == 8, "rl: a run has 4 or 8 elements");
    static_assert(Cols % Run == 0, "rl: cols must be a whole number of runs");
    static constexpr int row_runs = Cols / Run, runs = Rows * row_runs, held = (runs + 31) / 32;

    alignas(16) T data[held][Run];

    kittens_device static int row(int u) { return (32 * u + lane()) / row_runs; }
    kittens_device static int col(int u) { return (32 * u + lane()) % row_runs * Run; }
    kittens_device static bool holds(int u) { return runs % 32 == 0 || 32 * u + lane() < runs; }
};

template <typename X> inline constexpr bool is_rl = false;
template <typename T, int R, int C, int Run> inline constexpr bool is_rl<rl<T, R, C, Run>> = true;
template <typename X>
concept register_lines = is_rl<std::remove_const_t<X>>;

// f(row, first column of the first lines, its run, the run of the second, ...) for every run, as pointers; lines with
// equally many runs a row.
template <typename F, register_lines Lines, register_lines... Others>
kittens_device void each_run(F f, Lines& lines, Others&... others) {
    static_assert(((Others::rows == Lines::rows && Others::row_runs == Lines::row_runs) && ...),
                  "the lines of one operation must have equally many rows, and runs a row");
#pragma unroll
    for (int u = 0; u < Lines::held; u++)
        if (Lines::holds(u)) f(Lines::row(u), Lines::col(u), lines.data[u], others.data[u]...);
}

// A run from or to global memory in as few moves as its bytes allow: 16 at a time, or 8 where it has no more.
template <int Bytes> kittens_device void load_run(void* to, const void* from) {
    if constexpr (Bytes >= 16) {
#pragma unroll
        for (int i = 0; i < Bytes / 16; i++) static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
    } else {
        static_assert(Bytes == 8, "rl: a run moves 8 bytes or a multiple of 16");
        *static_cast<uint2*>(to) = *static_cast<const uint2*>(from);
    }
}
// By the instruction itself: a plain store of 16 bytes that were computed two at a time is taken apart into four.
template <int Bytes> kittens_device void store_run(void* to, const void* from) {
    if constexpr (Bytes >= 16) {
#pragma unroll
        for (int i = 0; i < Bytes / 16; i++) {
            const uint4 unit = static_cast<const uint4*>(from)[i];
            asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(static_cast<uint4*>(to) + i), "r"(unit.x),
                         "r"(unit.y), "r"(unit.z), "r"(unit.w)
                         : "memory");
        }
    } else {
        static_assert(Bytes == 8, "rl: a run moves 8 bytes or a multiple of 16");
        const uint2 unit = *static_cast<const uint2*>(from);
        asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(unit.x), "r"(unit.y) : "memory");
    }
}

// Runs past the tensor's end load as zeros and are not stored. Cols of the tensor are whole runs, and runs are aligned.
template <register_lines Dst, global_tensor Src>
kittens_device void load(Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    using T = typename Dst::T;
    using From = std::remove_const_t<typename Src::T>;
    each_run(
        [&](int row, int col, T* run) {
            alignas(16) From loaded[Dst::run] = {};
            if (at.r + row < src.rows() && at.c + col < src.cols())
                load_run<Dst::run * sizeof(From)>(loaded, src.row(at.b, at.d, at.r + row) + at.c + col);
#pragma unroll
            for (int i = 0; i < Dst::run; i++)
                if constexpr (std::is_same_v<T, From>) run[i] = loaded[i];
                else run[i] = from_float<T>(to_float(loaded[i]));
        },
        dst);
}
template <global_tensor Dst, register_lines Src>
kittens_device void store(const Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    using T = typename Src::T;
    using To = typename Dst::T;
    each_run(
        [&](int row, int col, const T* run) {
            if (at.r + row >= dst.rows() || at.c + col >= dst.cols()) return;
            alignas(16) To stored[Src::run];
#pragma unroll
            for (int i = 0; i < Src::run; i++)
                if constexpr (std::is_same_v<T, To>) stored[i] = run[i];
                else stored[i] = from_float<To>(to_float(run[i]));
            store_run<Src::run * sizeof(To)>(dst.row(at.b, at.d, at.r + row) + at.c + col, stored);
        },
        src);
}

// The sum of all elements, the same in every lane.
template <register_lines Lines> kittens_device float sum(const Lines& lines) {
    float total = 0.f;
    each_run(
        [&](int, int, const typename Lines::T* run) {
            float part = 0.f;
#pragma unroll
            for (int i = 0; i < Lines::run; i++) part += to_float(run[i]);
            total += part;
        },
        lines);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) total += shuffle_xor(total, mask);
    return total;
}

// One element of a shared vector by its index, the same in every lane.
template <shared_vec Vec> kittens_device void store_value(Vec& vec, int index, float value, site = kittens_here) {
    if (elect()) vec.data[index] = from_float<typename Vec::T>(value);
}
template <shared_vec Vec> kittens_device float load_value(const Vec& vec, int index, site = kittens_here) {
    return to_float(vec.data[index]);
}

}  // namespace kittens
