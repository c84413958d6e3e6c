// Softmax of whole rows: a feature map of linear attention, or weights that need no other tile.
#pragma once

namespace kittens {

// p = scale times the softmax over each row of Sign * x, which is at least `least`. A row with a number that is none stays
// none.
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

}  // namespace kittens
