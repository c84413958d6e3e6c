// Operations on register lines: op(dst, src...). Arithmetic is in fp32; 16-bit results are rounded to nearest even.
#pragma once

namespace kittens {

template <register_lines Lines> kittens_device void zero(Lines& lines) {
    each_run(
        [](int, int, typename Lines::T* run) {
            for (int i = 0; i < Lines::run; i++) run[i] = from_float<typename Lines::T>(0.f);
        },
        lines);
}

// dst = f(src...), element by element, for any f on floats; dst may be one of the sources.
template <typename F, register_lines Dst, register_lines... Srcs>
kittens_device void map_lines(Dst& dst, F f, const Srcs&... srcs) {
    static_assert(((Srcs::run == Dst::run) && ...), "map_lines: the lines must have runs of one length");
    each_run(
        [&](int, int, auto* d, const auto*... run) {
            [&](const auto&... x) {
#pragma unroll
                for (int i = 0; i < Dst::run; i++) d[i] = from_float<typename Dst::T>(f(x.value[i]...));
            }(to_floats<Dst::run>(run)...);
        },
        dst, srcs...);
}
// The sum of all elements, the same in every lane.
template <register_lines Lines> kittens_device float sum(const Lines& lines) {
    return sum(lines, [](int, int, float x) { return x; });
}
template <register_lines Dst, register_lines Src> kittens_device void mul(Dst& dst, const Src& src, float factor) {
    map_lines(dst, [=](float x) { return x * factor; }, src);
}

// (x, y) turned by the angles whose cosines and sines are given: x cos - y sin, x sin + y cos.
template <register_lines Lines, register_lines Table>
kittens_device void rotate(Lines& x, Lines& y, const Table& cosine, const Table& sine) {
    static_assert(Table::run == Lines::run, "rotate: an angle for each element of x");
    each_run(
        [](int, int, auto* x, auto* y, const auto* c, const auto* s) {
            constexpr int run = Lines::run;
            const auto a = to_floats<run>(x), b = to_floats<run>(y), cos = to_floats<run>(c), sin = to_floats<run>(s);
#pragma unroll
            for (int i = 0; i < run; i++) {
                x[i] = from_float<typename Lines::T>(a.value[i] * cos.value[i] - b.value[i] * sin.value[i]);
                y[i] = from_float<typename Lines::T>(a.value[i] * sin.value[i] + b.value[i] * cos.value[i]);
            }
        },
        x, y, cosine, sine);
}
// The same for neighbours: elements 2 i and 2 i + 1 are turned by angle i.
template <register_lines Lines, register_lines Table>
kittens_device void rotate_pairs(Lines& pairs, const Table& cosine, const Table& sine) {
    static_assert(2 * Table::run == Lines::run, "rotate_pairs: an angle for every two elements");
    each_run(
        [](int, int, auto* x, const auto* c, const auto* s) {
            const auto z = to_floats<Lines::run>(x);
            const auto cos = to_floats<Table::run>(c), sin = to_floats<Table::run>(s);
#pragma unroll
            for (int i = 0; i < Table::run; i++) {
                const float a = z.value[2 * i], b = z.value[2 * i + 1];
                x[2 * i] = from_float<typename Lines::T>(a * cos.value[i] - b * sin.value[i]);
                x[2 * i + 1] = from_float<typename Lines::T>(a * sin.value[i] + b * cos.value[i]);
            }
        },
        pairs, cosine, sine);
}

// The sum of one value a warp over the block's warps, the same in all of them. A vector may be used again after another
// barrier of the block.
template <int Warps, shared_vec Vec> kittens_device float block_sum(float value, Vec& parts) {
    static_assert(Warps <= Vec::length, "block_sum: one element a warp");
    store_value(parts, warp_index(), value);
    sync_block();
    float total = load_value(parts, 0);
#pragma unroll
    for (int warp = 1; warp < Warps; warp++) total += load_value(parts, warp);
    return total;
}

}  // namespace kittens
