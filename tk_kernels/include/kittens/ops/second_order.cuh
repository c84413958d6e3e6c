// Second-order features of rows of 16 columns: phi(q) . phi(k) = 1 + linear q.k + square (q.k)^2, the feature map of
// linear attention whose weights are a polynomial (Arora et al. 2024). linear and square are on q's side; powers of two
// are exact.
//
// q_i q_j is the same for (i, j) and (j, i), so that 9 cyclic diagonals q_c q_(c + t), t = 0 .. 8, hold all products:
// with the linear and the constant features 11 groups of 16, where q (x) q would have 16 for the products alone. They
// are kept as three times 64 features, of which each warp of a warpgroup has 16. Which group a warp has, the number
// being the t of the diagonal (9, 10, 11 stand for 7, 6, 5):
//   1 2 0 3 | 9 10 8 11 | linear, constant (its first row), 4, none
// so that a warp turns k^T once, and q's features are made by two shuffles a row: t + 8 is t with the halves exchanged.
#pragma once

namespace kittens {

inline constexpr int second_order_features = 192, second_order_groups = 3;  // of 64

namespace warpgroup {

// The features of R rows of k, given k^T: this warp's 16 of every 64, as rows.
template <typename T, int R>
kittens_device void second_order_keys(rt<T, 16, R> (&f)[second_order_groups], const rt<T, 16, R>& kt) {
    const int warp = warp_in_group();
    rt<T, 16, R> turned, opposite;
    rotate_rows(turned, kt, warp == 2 ? 4 : warp == 3 ? 3 : warp + 1);
    if (warp == 2) {
        mul(f[0], kt, kt);
        rotate_rows<8>(opposite, kt);
        mul(f[2], kt, turned);
    } else {
        mul(f[0], kt, turned);
        rotate_rows<8>(opposite, turned);
        if (warp == 0) copy(f[2], kt);
        else {
            fill(f[2], warp == 1 ? 1.f : 0.f);
            lower_fill(f[2], f[2], 1);
        }
    }
    mul(f[1], kt, opposite);
}

}  // namespace warpgroup

// The features of a warp's 16 rows of q, with the factors of both sides.
template <typename T> struct second_order_queries {
    rt<T, 16, 64> first, second;  // as the first and second 64 features of k
    rt<T, 16, 32> lines;          // the linear ones and the constant: the first 32 of the last 64
    rt<T, 16, 16> last;           // t = 4: the 16 after those

    kittens_device void make(const rt<T, 16, 16>& q, float linear, float square) {
        rt<T, 16, 16> once, twice, turned, made;  // q with the factor of a product that is there once, in both orders
        mul(once, q, square);
        mul(twice, q, 2 * square);
        const auto diagonals = [&]<int Turn>(int i, const rt<T, 16, 16>& scaled) {  // Turn, and Turn + 8
            rotate_cols<Turn>(turned, scaled);
            mul(made, q, turned);
            place(first, made, 0, i);
            rotate_cols<8>(turned, turned);
            mul(made, q, turned);
            place(second, made, 0, i);
        };
        diagonals.template operator()<1>(0, twice);
        diagonals.template operator()<2>(1, twice);
        diagonals.template operator()<0>(2, once);
        diagonals.template operator()<3>(3, twice);
        mul(made, q, linear);
        place(lines, made, 0, 0);
        fill(made, 1.f);
        right_fill(made, made, 1);
        place(lines, made, 0, 1);
        rotate_cols<4>(turned, twice);
        mul(last, q, turned);
    }
};

}  // namespace kittens
