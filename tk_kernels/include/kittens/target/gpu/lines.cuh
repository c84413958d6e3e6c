// GPU targets: register lines, the type of kernels that stream rows: nothing is multiplied, every byte is moved once.
#pragma once

#include "kittens/target/gpu/memory.cuh"

namespace kittens {

// Run u of lane l is the (32 u + l)-th of the rows' runs, one row after the other: 16 bytes move at a time.
template <typename T, int Rows, int Cols, int Run> struct rl : lines_shape<T, Rows, Cols, Run> {
    static constexpr int row_runs = Cols / Run, runs = Rows * row_runs, held = (runs + 31) / 32;

    alignas(16) T data[held][Run];

    kittens_device static int row(int u) { return (32 * u + lane()) / row_runs; }
    kittens_device static int col(int u) { return (32 * u + lane()) % row_runs * Run; }
    kittens_device static bool holds(int u) { return runs % 32 == 0 || 32 * u + lane() < runs; }
};

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

template <int Run, typename T> kittens_device floats<Run> to_floats(const T* run) {
    floats<Run> result;
#pragma unroll
    for (int i = 0; i < Run; i++) result.value[i] = to_float(run[i]);
    return result;
}
// Two bf16 of a word are its halves, each with zeros below: one instruction an element.
template <int Run> kittens_device floats<Run> to_floats(const bf16* run) {
    floats<Run> result;
#pragma unroll
    for (int i = 0; i < Run / 2; i++) {
        const uint32_t word = reinterpret_cast<const uint32_t*>(run)[i];
        result.value[2 * i] = __uint_as_float(word << 16);
        result.value[2 * i + 1] = __uint_as_float(word & 0xffff0000u);
    }
    return result;
}

// A run moves 16 bytes at a time, or 8 where it has no more: by the instruction itself, under a predicate. A branch a
// load costs more than the load, and a plain store of 16 bytes that were computed two at a time is taken apart into
// four.
template <int Bytes> using run_unit = std::conditional_t<(Bytes >= 16), uint4, uint2>;

#define KITTENS_LOAD_UNIT(operation, unit)                                                                 \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p " operation ".v4.b32 {%0, %1, %2, %3}, [%4]; }" \
                 : "+r"(unit.x), "+r"(unit.y), "+r"(unit.z), "+r"(unit.w)                                  \
                 : "l"(from), "r"(int(inside))                                                             \
                 : "memory")
#define KITTENS_STORE_UNIT(operation, unit)                                                                           \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p " operation ".v4.b32 [%0], {%1, %2, %3, %4}; }" ::"l"(to), \
                 "r"(unit.x), "r"(unit.y), "r"(unit.z), "r"(unit.w), "r"(int(inside))                                 \
                 : "memory")

template <reuse Reuse> kittens_device uint4 load_unit(const uint4* from, bool inside) {
    uint4 unit = {};
    if constexpr (Reuse == reuse::once) KITTENS_LOAD_UNIT("ld.global.L1::no_allocate", unit);
    else KITTENS_LOAD_UNIT("ld.global", unit);
    return unit;
}
template <reuse> kittens_device uint2 load_unit(const uint2* from, bool inside) {
    uint2 unit = {};
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.v2.b32 {%0, %1}, [%2]; }"
                 : "+r"(unit.x), "+r"(unit.y)
                 : "l"(from), "r"(int(inside))
                 : "memory");
    return unit;
}
template <reuse Reuse> kittens_device void store_unit(uint4* to, uint4 unit, bool inside) {
    if constexpr (Reuse == reuse::once) KITTENS_STORE_UNIT("st.global.cs", unit);
    else KITTENS_STORE_UNIT("st.global", unit);
}
template <reuse> kittens_device void store_unit(uint2* to, uint2 unit, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p st.global.v2.b32 [%0], {%1, %2}; }" ::"l"(to), "r"(unit.x),
                 "r"(unit.y), "r"(int(inside))
                 : "memory");
}
#undef KITTENS_LOAD_UNIT
#undef KITTENS_STORE_UNIT

// Runs past the tensor's end load as zeros and are not stored. Cols of the tensor are whole runs, and runs are aligned.
template <reuse Reuse = reuse::again, register_lines Dst, global_tensor Src>
kittens_device void load(Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    using T = typename Dst::T;
    using From = std::remove_const_t<typename Src::T>;
    constexpr int bytes = Dst::run * sizeof(From);
    using unit = run_unit<bytes>;
    static_assert(bytes == 8 || bytes % 16 == 0, "rl: a run moves 8 bytes or a multiple of 16");
    each_run(
        [&](int row, int col, T* run) {
            const bool inside = at.r + row < src.rows() && at.c + col < src.cols();
            const From* from = src.row(at.b, at.d, at.r + row) + at.c + col;
            alignas(16) From loaded[Dst::run];
#pragma unroll
            for (int i = 0; i < bytes / int(sizeof(unit)); i++)
                reinterpret_cast<unit*>(loaded)[i] = load_unit<Reuse>(reinterpret_cast<const unit*>(from) + i, inside);
            if constexpr (std::is_same_v<T, From>) {
#pragma unroll
                for (int i = 0; i < Dst::run; i++) run[i] = loaded[i];
            } else {
                const auto x = to_floats<Dst::run>(loaded);
#pragma unroll
                for (int i = 0; i < Dst::run; i++) run[i] = from_float<T>(x.value[i]);
            }
        },
        dst);
}
template <reuse Reuse = reuse::again, global_tensor Dst, register_lines Src>
kittens_device void store(const Dst& dst, const Src& src, element_coord at, site = kittens_here) {
    using T = typename Src::T;
    using To = typename Dst::T;
    constexpr int bytes = Src::run * sizeof(To);
    using unit = run_unit<bytes>;
    static_assert(bytes == 8 || bytes % 16 == 0, "rl: a run moves 8 bytes or a multiple of 16");
    each_run(
        [&](int row, int col, const T* run) {
            const bool inside = at.r + row < dst.rows() && at.c + col < dst.cols();
            To* to = dst.row(at.b, at.d, at.r + row) + at.c + col;
            alignas(16) To stored[Src::run];
#pragma unroll
            for (int i = 0; i < Src::run; i++)
                if constexpr (std::is_same_v<T, To>) stored[i] = run[i];
                else stored[i] = from_float<To>(to_float(run[i]));
#pragma unroll
            for (int i = 0; i < bytes / int(sizeof(unit)); i++)
                store_unit<Reuse>(reinterpret_cast<unit*>(to) + i, reinterpret_cast<const unit*>(stored)[i], inside);
        },
        src);
}

// The sum of f(row, first column of the run, element) over all elements, the same in every lane.
template <register_lines Lines, typename F> kittens_device float sum(const Lines& lines, F f) {
    float total = 0.f;
    each_run(
        [&](int row, int col, const typename Lines::T* run) {
            const auto x = to_floats<Lines::run>(run);
            float part = 0.f;
#pragma unroll
            for (int i = 0; i < Lines::run; i++) part += f(row, col, x.value[i]);
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
