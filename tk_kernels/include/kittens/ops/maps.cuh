// Element-wise operations on register tiles and vectors: op(dst, src...). Arithmetic is in fp32; 16-bit results are
// rounded to nearest even. dst may be one of the sources.
#pragma once

namespace kittens {

inline constexpr float log2_e = 1.4426950408889634f;  // exp(x) = exp2(log2_e x)

namespace ops {
// What a map does to two elements.
struct add {
    kittens_device float operator()(float x, float y) const { return x + y; }
};
struct sub {
    kittens_device float operator()(float x, float y) const { return x - y; }
};
struct mul {
    kittens_device float operator()(float x, float y) const { return x * y; }
};
struct div {
    kittens_device float operator()(float x, float y) const { return x / y; }
};
struct max {
    kittens_device float operator()(float x, float y) const { return math::max(x, y); }
};
struct min {
    kittens_device float operator()(float x, float y) const { return math::min(x, y); }
};
}  // namespace ops

template <typename X>
concept registers = register_tile<X> || register_vec<X>;

namespace detail {
// Rounds v to the type of the element it goes to.
template <typename T> kittens_device void put(T& element, float v) { element = from_float<T>(v); }
}  // namespace detail

// dst = f(src), dst = f(a, b), element by element, for any f on floats.
template <typename F, register_tile Dst, register_tile Src>
kittens_device void map(Dst& dst, const Src& src, F f) {
    each([&](int, int, auto& d, const auto& x) { detail::put(d, f(to_float(x))); }, dst, src);
}
template <typename F, register_vec Dst, register_vec Src>
kittens_device void map(Dst& dst, const Src& src, F f) {
    each([&](int, auto& d, const auto& x) { detail::put(d, f(to_float(x))); }, dst, src);
}
template <typename F, register_tile Dst, register_tile A, register_tile B>
kittens_device void map(Dst& dst, const A& a, const B& b, F f) {
    each([&](int, int, auto& d, const auto& x, const auto& y) { detail::put(d, f(to_float(x), to_float(y))); }, dst, a,
         b);
}
template <typename F, register_vec Dst, register_vec A, register_vec B>
kittens_device void map(Dst& dst, const A& a, const B& b, F f) {
    each([&](int, auto& d, const auto& x, const auto& y) { detail::put(d, f(to_float(x), to_float(y))); }, dst, a, b);
}
template <typename F, registers Dst, registers A> kittens_device void map(Dst& dst, const A& a, float b, F f) {
    map(dst, a, [=](float x) { return f(x, b); });
}
// With a row's value (col_vec) or a column's (row_vec) as the second operand.
template <typename F, register_tile Dst, register_tile Src, register_vec Vec>
kittens_device void map_rows(Dst& dst, const Src& src, const Vec& vec, F f) {
    each_with_col_vec([&](int, int, auto v, auto& d, const auto& x) { detail::put(d, f(to_float(x), to_float(v))); },
                      vec, dst, src);
}
template <typename F, register_tile Dst, register_tile Src, register_vec Vec>
kittens_device void map_cols(Dst& dst, const Src& src, const Vec& vec, F f) {
    each_with_row_vec([&](int, int, auto v, auto& d, const auto& x) { detail::put(d, f(to_float(x), to_float(v))); },
                      vec, dst, src);
}

// --- named maps -----------------------------------------------------------------------------------------------
kittens_device void fill(registers auto& dst, float value) {
    map(dst, dst, [=](float) { return value; });
}
kittens_device void zero(registers auto& dst) { fill(dst, 0.f); }
kittens_device void one(registers auto& dst) { fill(dst, 1.f); }

// Converts the element type; for vectors also the spread over the lanes.
template <registers Dst, registers Src> kittens_device void copy(Dst& dst, const Src& src) {
    if constexpr (register_tile<Dst>) map(dst, src, [](float x) { return x; });
    else if constexpr (Dst::spread == Src::spread) map(dst, src, [](float x) { return x; });
    else convert_spread(dst, src);
}

kittens_device void exp(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return math::exp(x); });
}
kittens_device void exp2(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return math::exp2(x); });
}
kittens_device void log(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return math::log(x); });
}
kittens_device void log2(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return math::log2(x); });
}
kittens_device void abs(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return math::abs(x); });
}
kittens_device void sqrt(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return math::sqrt(x); });
}
kittens_device void rsqrt(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return math::rsqrt(x); });
}
kittens_device void tanh(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return math::tanh(x); });
}
kittens_device void neg(registers auto& dst, const auto& src) {
    map(dst, src, [](float x) { return -x; });
}
kittens_device void relu(registers auto& dst, const auto& src) { max(dst, src, 0.f); }

kittens_device void add(registers auto& dst, const auto& a, const registers auto& b) { map(dst, a, b, ops::add{}); }
kittens_device void sub(registers auto& dst, const auto& a, const registers auto& b) { map(dst, a, b, ops::sub{}); }
kittens_device void mul(registers auto& dst, const auto& a, const registers auto& b) { map(dst, a, b, ops::mul{}); }
// 16-bit tiles of one type: the target multiplies two elements at a time.
template <register_tile Dst, register_tile A, register_tile B>
    requires(sizeof(typename Dst::T) == 2 && std::is_same_v<typename Dst::T, typename A::T> &&
             std::is_same_v<typename Dst::T, typename B::T>)
kittens_device void mul(Dst& dst, const A& a, const B& b) {
    multiply_elements(dst, a, b);
}
kittens_device void div(registers auto& dst, const auto& a, const registers auto& b) { map(dst, a, b, ops::div{}); }
kittens_device void max(registers auto& dst, const auto& a, const registers auto& b) { map(dst, a, b, ops::max{}); }
kittens_device void min(registers auto& dst, const auto& a, const registers auto& b) { map(dst, a, b, ops::min{}); }

// With a number.
kittens_device void add(registers auto& dst, const auto& a, float b) { map(dst, a, b, ops::add{}); }
kittens_device void sub(registers auto& dst, const auto& a, float b) { map(dst, a, b, ops::sub{}); }
kittens_device void mul(registers auto& dst, const auto& a, float b) { map(dst, a, b, ops::mul{}); }
kittens_device void div(registers auto& dst, const auto& a, float b) { map(dst, a, b, ops::div{}); }
kittens_device void max(registers auto& dst, const auto& a, float b) { map(dst, a, b, ops::max{}); }
kittens_device void min(registers auto& dst, const auto& a, float b) { map(dst, a, b, ops::min{}); }

// --- broadcasts: every row with its own value (a col_vec), every column with its own (a row_vec) ---------------
kittens_device void add_row(registers auto& dst, const auto& src, const auto& v) { map_rows(dst, src, v, ops::add{}); }
kittens_device void sub_row(registers auto& dst, const auto& src, const auto& v) { map_rows(dst, src, v, ops::sub{}); }
kittens_device void mul_row(registers auto& dst, const auto& src, const auto& v) { map_rows(dst, src, v, ops::mul{}); }
kittens_device void div_row(registers auto& dst, const auto& src, const auto& v) { map_rows(dst, src, v, ops::div{}); }
kittens_device void add_col(registers auto& dst, const auto& src, const auto& v) { map_cols(dst, src, v, ops::add{}); }
kittens_device void sub_col(registers auto& dst, const auto& src, const auto& v) { map_cols(dst, src, v, ops::sub{}); }
kittens_device void mul_col(registers auto& dst, const auto& src, const auto& v) { map_cols(dst, src, v, ops::mul{}); }
kittens_device void div_col(registers auto& dst, const auto& src, const auto& v) { map_cols(dst, src, v, ops::div{}); }

// dst's rows, or columns, all equal to the vector's value there.
template <register_tile Dst, register_vec Vec> kittens_device void broadcast_row(Dst& dst, const Vec& v) {
    each_with_col_vec([](int, int, auto value, auto& d) { detail::put(d, to_float(value)); }, v, dst);
}
template <register_tile Dst, register_vec Vec> kittens_device void broadcast_col(Dst& dst, const Vec& v) {
    each_with_row_vec([](int, int, auto value, auto& d) { detail::put(d, to_float(value)); }, v, dst);
}

}  // namespace kittens
