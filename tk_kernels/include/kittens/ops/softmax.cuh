// Softmax of rows: of those that lie in one tile whole (a feature map of linear attention), and of those that come in
// tiles.
#pragma once

namespace kittens {

// p = scale times the softmax over each row of Sign * x, which is at least `least`. A row with a number that is none
// stays none.
template <int Sign = 1, register_tile Tile>
kittens_device void row_softmax(Tile& p, const Tile& x, float least, float scale = 1.f) {
    typename Tile::col_vec top, total, lowest;
    if constexpr (Sign > 0) row_max(top, x);
    else row_min(top, x);
    mul(top, top, Sign * log2_e);
    map_rows(p, x, top, [](float a, float t) { return math::exp2(a * (Sign * log2_e) - t); });
    row_sum(total, p);
    mul(lowest, total, least);
    map(total, total, [=](float sum) {
        const float root = math::rsqrt(sum);  // a division would branch, and keep what stands beside it apart
        return root * root * scale;
    });
    map_rows(p, p, lowest, ops::max{});  // before the scaling, by which a NaN would be lost
    mul_row(p, p, total);
}

// Softmax along the rows of a matrix that comes in tiles, one after another (Milakov and Gimelshein 2018), in base 2:
// what a warp knows of its rows so far. The maximum follows lazily: it moves only where weights would exceed 2^8, so
// that results are rarely rescaled; weights and sum carry the same factor, but a row's largest weight is no longer
// exactly 1.
template <int Rows = 16> struct online_softmax {
    using rows_vec = rt_fl<Rows, 16>::col_vec;
    rows_vec top, sum;  // each lane has its own part of the sum

    kittens_device online_softmax() {
        fill(top, -INFINITY);
        zero(sum);
    }

    // scores times `scale` -> weights relative to the maximum. True where that moved: `shrink` is then what the results
    // so far must be multiplied by.
    template <register_tile Scores> kittens_device bool step(Scores& s, rows_vec& shrink, float scale) {
        rows_vec high, above, base;
        row_max_partial(high, s);
        map(above, high, top, [=](float h, float t) { return h * scale - t; });
        const bool moves = any(above, [](float x) { return x > 8.f; });
        if (moves) {
            row_max_finish(high);
            map(high, high, top, [=](float h, float t) { return h * scale - t > 8.f ? h * scale : t; });
            map(base, high, [](float h) { return h == -INFINITY ? 0.f : h; });
            sub(shrink, top, base);
            exp2(shrink, shrink);
            copy(top, high);
            mul(sum, sum, shrink);
        }
        map(base, top, [](float t) { return t == -INFINITY ? 0.f : t; });  // a row that sees nothing yet
        map_rows(s, s, base, [=](float x, float b) { return math::exp2(x * scale - b); });
        row_sum_partial(sum, s);
        settle(sum);  // what follows waits for a multiply: the exponentials are to run under it
        return moves;
    }

    // After the last step: the factor that normalises the result, and the natural logarithm of the sum.
    kittens_device void finish(rows_vec& factor, rows_vec& lse) {
        row_sum_finish(sum);
        map(factor, sum, [](float x) { return x == 0.f ? 0.f : 1.f / x; });
        map(lse, top, sum, [](float t, float x) { return 0.6931471805599453f * (t + math::log2(x)); });
    }
};

}  // namespace kittens
