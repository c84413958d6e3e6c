// Reductions of register tiles to one value a row (a col_vec) or a column (a row_vec), and of vectors to one number.
#pragma once

namespace kittens {

// f on elements of any type, rounded back: fp32 combines exactly as f does.
template <typename T, typename F> struct combine_as {
    F f;
    kittens_device T operator()(T x, T y) const { return from_float<T>(f(to_float(x), to_float(y))); }
};

// dst = reduction of src; with accumulate, of dst's old value too.
template <typename F, register_vec Vec, register_tile Tile> kittens_device void row_reduce(Vec& dst, const Tile& src,
                                                                                           F f) {
    combine_as<typename Vec::T, F> combine{f};
    reduce_rows_partial(dst, src, combine, false);
    reduce_finish(dst, combine);
}
template <typename F, register_vec Vec, register_tile Tile> kittens_device void col_reduce(Vec& dst, const Tile& src,
                                                                                           F f) {
    combine_as<typename Vec::T, F> combine{f};
    reduce_cols_partial(dst, src, combine, false);
    reduce_finish(dst, combine);
}
// The same combined with the vector `old`: each of the reductions below takes one.
template <typename F, register_vec Vec, register_tile Tile, register_vec Old>
kittens_device void row_reduce(Vec& dst, const Tile& src, const Old& old, F f) {
    Vec fresh;
    row_reduce(fresh, src, f);
    map(dst, old, fresh, f);
}
template <typename F, register_vec Vec, register_tile Tile, register_vec Old>
kittens_device void col_reduce(Vec& dst, const Tile& src, const Old& old, F f) {
    Vec fresh;
    col_reduce(fresh, src, f);
    map(dst, old, fresh, f);
}

kittens_device void row_sum(auto& dst, const auto& src, const auto&... old) {
    row_reduce(dst, src, old..., ops::add{});
}
kittens_device void row_max(auto& dst, const auto& src, const auto&... old) {
    row_reduce(dst, src, old..., ops::max{});
}
kittens_device void row_min(auto& dst, const auto& src, const auto&... old) {
    row_reduce(dst, src, old..., ops::min{});
}
kittens_device void row_prod(auto& dst, const auto& src, const auto&... old) {
    row_reduce(dst, src, old..., ops::mul{});
}
kittens_device void col_sum(auto& dst, const auto& src, const auto&... old) {
    col_reduce(dst, src, old..., ops::add{});
}
kittens_device void col_max(auto& dst, const auto& src, const auto&... old) {
    col_reduce(dst, src, old..., ops::max{});
}
kittens_device void col_min(auto& dst, const auto& src, const auto&... old) {
    col_reduce(dst, src, old..., ops::min{});
}
kittens_device void col_prod(auto& dst, const auto& src, const auto&... old) {
    col_reduce(dst, src, old..., ops::mul{});
}

// A running sum whose lanes are combined once, at the end: row_sum_partial in a loop (on a vector set to zero before),
// then row_sum_finish. Between the two the vector may be scaled (mul), but not read as a sum.
template <register_vec Vec, register_tile Tile> kittens_device void row_sum_partial(Vec& running, const Tile& src) {
    reduce_rows_partial(running, src, combine_as<typename Vec::T, ops::add>{}, true);
}
template <register_vec Vec> kittens_device void row_sum_finish(Vec& running) {
    reduce_finish(running, combine_as<typename Vec::T, ops::add>{});
}
// The same, of each row's products with the vector's values: a tile times a vector. The tile may be of 16 bits.
template <register_vec Vec, register_tile Tile, shared_vec Weights>
kittens_device void row_dot_partial(Vec& running, const Tile& src, const Weights& weights, site where = kittens_here) {
    rt<typename Vec::T, Tile::rows, Tile::cols, Tile::order> terms;
    typename decltype(terms)::row_vec across;
    load(across, weights, where);
    copy(terms, src);
    mul_col(terms, terms, across);
    row_sum_partial(running, terms);
}
// A maximum whose lanes are not combined: `any` may ask about it; row_max_finish makes it the rows' maximum.
template <register_vec Vec, register_tile Tile> kittens_device void row_max_partial(Vec& dst, const Tile& src) {
    reduce_rows_partial(dst, src, combine_as<typename Vec::T, ops::max>{}, false);
}
template <register_vec Vec> kittens_device void row_max_finish(Vec& dst) {
    reduce_finish(dst, combine_as<typename Vec::T, ops::max>{});
}

// Of a vector; every lane gets the result.
template <register_vec Vec> kittens_device float sum(const Vec& v) {
    return to_float(reduce_all(v, combine_as<typename Vec::T, ops::add>{}, from_float<typename Vec::T>(0.f)));
}
template <register_vec Vec> kittens_device float max(const Vec& v) {
    return to_float(reduce_all(v, combine_as<typename Vec::T, ops::max>{}, from_float<typename Vec::T>(-INFINITY)));
}
template <register_vec Vec> kittens_device float min(const Vec& v) {
    return to_float(reduce_all(v, combine_as<typename Vec::T, ops::min>{}, from_float<typename Vec::T>(INFINITY)));
}

}  // namespace kittens
