// Operations on register lines: op(dst, src...). Arithmetic is in fp32; 16-bit results are rounded to nearest even.
#pragma once

namespace kittens {

// dst = f(src...), element by element, for any f on floats; dst may be one of the sources.
template <typename F, register_lines Dst, register_lines... Srcs>
kittens_device void map_lines(Dst& dst, F f, const Srcs&... srcs) {
    static_assert(((Srcs::run == Dst::run) && ...), "map_lines: the lines must have runs of one length");
    each_run(
        [&](int, int, auto* d, const auto*... x) {
#pragma unroll
            for (int i = 0; i < Dst::run; i++) d[i] = from_float<typename Dst::T>(f(to_float(x[i])...));
        },
        dst, srcs...);
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
#pragma unroll
            for (int i = 0; i < Lines::run; i++) {
                const float a = to_float(x[i]), b = to_float(y[i]), cos = to_float(c[i]), sin = to_float(s[i]);
                x[i] = from_float<typename Lines::T>(a * cos - b * sin);
                y[i] = from_float<typename Lines::T>(a * sin + b * cos);
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
#pragma unroll
            for (int i = 0; i < Table::run; i++) {
                const float a = to_float(x[2 * i]), b = to_float(x[2 * i + 1]);
                const float cos = to_float(c[i]), sin = to_float(s[i]);
                x[2 * i] = from_float<typename Lines::T>(a * cos - b * sin);
                x[2 * i + 1] = from_float<typename Lines::T>(a * sin + b * cos);
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
