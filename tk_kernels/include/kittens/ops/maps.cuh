// Element-wise operations on register tiles and vectors: op(dst, src...). Arithmetic is in fp32; 16-bit results are
// rounded to nearest even. dst may be one of the sources.
#pragma once

namespace kittens {

inline constexpr float log2_e = 1.4426950408889634f;  // exp(x) = exp2(log2_e x)

namespace ops {
// What a map does to one element, or to two.
struct zero {
    kittens_device float operator()() const { return 0.f; }
};
struct exp {
    kittens_device float operator()(float x) const { return math::exp(x); }
};
struct exp2 {
    kittens_device float operator()(float x) const { return math::exp2(x); }
};
struct log {
    kittens_device float operator()(float x) const { return math::log(x); }
};
struct log2 {
    kittens_device float operator()(float x) const { return math::log2(x); }
};
struct abs {
    kittens_device float operator()(float x) const { return math::abs(x); }
};
struct neg {
    kittens_device float operator()(float x) const { return -x; }
};
struct relu {
    kittens_device float operator()(float x) const { return math::max(x, 0.f); }
};
struct sqrt {
    kittens_device float operator()(float x) const { return math::sqrt(x); }
};
struct rsqrt {
    kittens_device float operator()(float x) const { return math::rsqrt(x); }
};
struct tanh {
    kittens_device float operator()(float x) const { return math::tanh(x); }
};
struct copy {
    kittens_device float operator()(float x) const { return x; }
};

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
template <registers Dst> kittens_device void fill(Dst& dst, float value) {
    map(dst, dst, [=](float) { return value; });
}
template <registers Dst> kittens_device void zero(Dst& dst) { fill(dst, 0.f); }
template <registers Dst> kittens_device void one(Dst& dst) { fill(dst, 1.f); }

// Converts the element type; for vectors also the spread over the lanes.
template <register_tile Dst, register_tile Src> kittens_device void copy(Dst& dst, const Src& src) {
    map(dst, src, ops::copy{});
}
template <register_vec Dst, register_vec Src> kittens_device void copy(Dst& dst, const Src& src) {
    if constexpr (Dst::spread == Src::spread) map(dst, src, ops::copy{});
    else convert_spread(dst, src);
}

template <registers Dst, registers Src> kittens_device void exp(Dst& dst, const Src& src) { map(dst, src, ops::exp{}); }
template <registers Dst, registers Src> kittens_device void exp2(Dst& dst, const Src& src) {
    map(dst, src, ops::exp2{});
}
template <registers Dst, registers Src> kittens_device void log(Dst& dst, const Src& src) { map(dst, src, ops::log{}); }
template <registers Dst, registers Src> kittens_device void log2(Dst& dst, const Src& src) {
    map(dst, src, ops::log2{});
}
template <registers Dst, registers Src> kittens_device void abs(Dst& dst, const Src& src) { map(dst, src, ops::abs{}); }
template <registers Dst, registers Src> kittens_device void neg(Dst& dst, const Src& src) { map(dst, src, ops::neg{}); }
template <registers Dst, registers Src> kittens_device void relu(Dst& dst, const Src& src) {
    map(dst, src, ops::relu{});
}
template <registers Dst, registers Src> kittens_device void sqrt(Dst& dst, const Src& src) {
    map(dst, src, ops::sqrt{});
}
template <registers Dst, registers Src> kittens_device void rsqrt(Dst& dst, const Src& src) {
    map(dst, src, ops::rsqrt{});
}
template <registers Dst, registers Src> kittens_device void tanh(Dst& dst, const Src& src) {
    map(dst, src, ops::tanh{});
}

template <registers Dst, registers A, registers B> kittens_device void add(Dst& dst, const A& a, const B& b) {
    map(dst, a, b, ops::add{});
}
template <registers Dst, registers A, registers B> kittens_device void sub(Dst& dst, const A& a, const B& b) {
    map(dst, a, b, ops::sub{});
}
template <registers Dst, registers A, registers B> kittens_device void mul(Dst& dst, const A& a, const B& b) {
    map(dst, a, b, ops::mul{});
}
// 16-bit tiles of one type: the target multiplies two elements at a time.
template <register_tile Dst, register_tile A, register_tile B>
    requires(sizeof(typename Dst::T) == 2 && std::is_same_v<typename Dst::T, typename A::T> &&
             std::is_same_v<typename Dst::T, typename B::T>)
kittens_device void mul(Dst& dst, const A& a, const B& b) {
    multiply_elements(dst, a, b);
}
template <registers Dst, registers A, registers B> kittens_device void div(Dst& dst, const A& a, const B& b) {
    map(dst, a, b, ops::div{});
}
template <registers Dst, registers A, registers B> kittens_device void max(Dst& dst, const A& a, const B& b) {
    map(dst, a, b, ops::max{});
}
template <registers Dst, registers A, registers B> kittens_device void min(Dst& dst, const A& a, const B& b) {
    map(dst, a, b, ops::min{});
}

// With a number.
template <registers Dst, registers A> kittens_device void add(Dst& dst, const A& a, float b) {
    map(dst, a, [=](float x) { return x + b; });
}
template <registers Dst, registers A> kittens_device void sub(Dst& dst, const A& a, float b) {
    map(dst, a, [=](float x) { return x - b; });
}
template <registers Dst, registers A> kittens_device void mul(Dst& dst, const A& a, float b) {
    map(dst, a, [=](float x) { return x * b; });
}
template <registers Dst, registers A> kittens_device void div(Dst& dst, const A& a, float b) {
    map(dst, a, [=](float x) { return x / b; });
}
template <registers Dst, registers A> kittens_device void max(Dst& dst, const A& a, float b) {
    map(dst, a, [=](float x) { return math::max(x, b); });
}
template <registers Dst, registers A> kittens_device void min(Dst& dst, const A& a, float b) {
    map(dst, a, [=](float x) { return math::min(x, b); });
}

// --- broadcasts: every row with its own value (a col_vec), every column with its own (a row_vec) ---------------
template <register_tile Dst, register_tile Src, register_vec Vec> kittens_device void add_row(Dst& dst, const Src& src,
                                                                                              const Vec& v) {
    map_rows(dst, src, v, ops::add{});
}
template <register_tile Dst, register_tile Src, register_vec Vec> kittens_device void sub_row(Dst& dst, const Src& src,
                                                                                              const Vec& v) {
    map_rows(dst, src, v, ops::sub{});
}
template <register_tile Dst, register_tile Src, register_vec Vec> kittens_device void mul_row(Dst& dst, const Src& src,
                                                                                              const Vec& v) {
    map_rows(dst, src, v, ops::mul{});
}
template <register_tile Dst, register_tile Src, register_vec Vec> kittens_device void div_row(Dst& dst, const Src& src,
                                                                                              const Vec& v) {
    map_rows(dst, src, v, ops::div{});
}
template <register_tile Dst, register_tile Src, register_vec Vec> kittens_device void add_col(Dst& dst, const Src& src,
                                                                                              const Vec& v) {
    map_cols(dst, src, v, ops::add{});
}
template <register_tile Dst, register_tile Src, register_vec Vec> kittens_device void sub_col(Dst& dst, const Src& src,
                                                                                              const Vec& v) {
    map_cols(dst, src, v, ops::sub{});
}
template <register_tile Dst, register_tile Src, register_vec Vec> kittens_device void mul_col(Dst& dst, const Src& src,
                                                                                              const Vec& v) {
    map_cols(dst, src, v, ops::mul{});
}
template <register_tile Dst, register_tile Src, register_vec Vec> kittens_device void div_col(Dst& dst, const Src& src,
                                                                                              const Vec& v) {
    map_cols(dst, src, v, ops::div{});
}

// dst's rows, or columns, all equal to the vector's value there.
template <register_tile Dst, register_vec Vec> kittens_device void broadcast_row(Dst& dst, const Vec& v) {
    each_with_col_vec([](int, int, auto value, auto& d) { detail::put(d, to_float(value)); }, v, dst);
}
template <register_tile Dst, register_vec Vec> kittens_device void broadcast_col(Dst& dst, const Vec& v) {
    each_with_row_vec([](int, int, auto value, auto& d) { detail::put(d, to_float(value)); }, v, dst);
}

}  // namespace kittens
