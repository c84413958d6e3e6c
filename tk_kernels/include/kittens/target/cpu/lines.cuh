// cpu: register lines, the type of kernels that stream rows: nothing is multiplied, every byte is moved once.
#pragma once

#include "kittens/target/cpu/memory.cuh"
#include "kittens/target/cpu/sync.cuh"

namespace kittens {

// Fresh ones read as NaN.
template <typename T, int Rows, int Cols, int Run> struct rl : lines_shape<T, Rows, Cols, Run> {
    T data[Rows][Cols];

    rl() { std::memset(static_cast<void*>(data), 0xff, sizeof(data)); }
};

// f(row, first column of the first lines, its run, the run of the second, ...) for every run, as pointers; lines with
// equally many runs a row.
template <typename F, register_lines Lines, register_lines... Others>
kittens_device void each_run(F f, Lines& lines, Others&... others) {
    static_assert(((Others::rows == Lines::rows && Others::row_runs == Lines::row_runs) && ...),
                  "the lines of one operation must have equally many rows, and runs a row");
    for (int row = 0; row < Lines::rows; row++)
        for (int u = 0; u < Lines::row_runs; u++)
            f(row, u * Lines::run, lines.data[row] + u * Lines::run, others.data[row] + u * Others::run...);
}

template <int Run, typename T> kittens_device floats<Run> to_floats(const T* run) {
    floats<Run> result;
    for (int i = 0; i < Run; i++) result.value[i] = to_float(run[i]);
    return result;
}

namespace cpu {
// What a GPU's lanes need to move a run at once: whole runs at aligned places.
template <int Run, global_tensor Gl> void check_runs(const Gl& global, element_coord at, const action& who) {
    constexpr size_t bytes = Run * sizeof(typename Gl::T), alignment = bytes < 16 ? bytes : 16;
    check_global(global, at, who);
    if (global.cols() % Run != 0)
        fail(name(who), " moves runs of ", Run, " elements of a tensor with ", plural(global.cols(), "column"),
             ": rows must be whole runs");
    bool aligned = reinterpret_cast<uintptr_t>(global.data + at.c) % alignment == 0;
    const int extents[3] = {global.batch(), global.depth(), global.rows()};
    for (int dim = 0; dim < 3; dim++)
        aligned = aligned && (extents[dim] == 1 || global.stride[dim] * sizeof(typename Gl::T) % alignment == 0);
    if (!aligned)
        fail(name(who), " moves ", alignment, " bytes at a time: base, strides and columns must be multiples of that");
}
}  // namespace cpu

// Runs past the tensor's end load as zeros and are not stored. Cols of the tensor are whole runs, and runs are aligned.
template <reuse = reuse::again, register_lines Dst, global_tensor Src>
kittens_device void load(Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    using T = typename Dst::T;
    using From = std::remove_const_t<typename Src::T>;
    const auto [w, who] = cpu::begin("load", where);
    cpu::check_runs<Dst::run>(src, at, who);
    cpu::note_read(w, src, at, Dst::rows, Dst::cols, who);
    for (int i = 0; i < Dst::rows; i++)
        for (int j = 0; j < Dst::cols; j++) {
            const bool inside = at.r + i < src.rows() && at.c + j < src.cols();
            const From x = inside ? src.row(at.b, at.d, at.r + i)[at.c + j] : From{};
            if constexpr (std::is_same_v<T, From>) dst.data[i][j] = x;
            else dst.data[i][j] = from_float<T>(to_float(x));
        }
}
template <reuse = reuse::again, global_tensor Dst, register_lines Src>
kittens_device void store(const Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    using To = typename Dst::T;
    const auto [w, who] = cpu::begin("store", where);
    cpu::check_runs<Src::run>(dst, at, who);
    const int cols = std::clamp(dst.cols() - at.c, 0, Src::cols);
    for (int i = 0; i < Src::rows; i++) {
        if (at.r + i >= dst.rows() || cols == 0) continue;
        To* to = dst.row(at.b, at.d, at.r + i) + at.c;
        w.machine->note_write(to, cols * sizeof(To), who, is_exchanged<Dst>);
        for (int j = 0; j < cols; j++) {
            if constexpr (std::is_same_v<typename Src::T, To>) to[j] = src.data[i][j];
            else to[j] = from_float<To>(to_float(src.data[i][j]));
        }
    }
}

// The sum of f(row, first column of the run, element) over all elements, the same in every lane: the lanes' shares
// first, as a GPU adds them.
template <register_lines Lines, typename F> kittens_device float sum(const Lines& lines, F f) {
    float shares[warp_threads] = {};
    int at = 0;
    each_run(
        [&](int row, int col, const typename Lines::T* run) {
            const auto x = to_floats<Lines::run>(run);
            float part = 0.f;
            for (int i = 0; i < Lines::run; i++) part += f(row, col, x.value[i]);
            shares[at++ % warp_threads] += part;
        },
        lines);
    for (int n = warp_threads / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) shares[i] += shares[i + n];
    return shares[0];
}

// One element of a shared vector by its index, the same in every lane.
template <shared_vec Vec>
kittens_device void store_value(Vec& vec, int index, float value, site where = kittens_here) {
    const auto [w, who] = cpu::begin("store_value", where);
    cpu::access_shared(w, who, vec.data + index, true, {sizeof(typename Vec::T)});
    vec.data[index] = from_float<typename Vec::T>(value);
}
template <shared_vec Vec> kittens_device float load_value(const Vec& vec, int index, site where = kittens_here) {
    const auto [w, who] = cpu::begin("load_value", where);
    cpu::access_shared(w, who, vec.data + index, false, {sizeof(typename Vec::T)});
    return to_float(vec.data[index]);
}

}  // namespace kittens
