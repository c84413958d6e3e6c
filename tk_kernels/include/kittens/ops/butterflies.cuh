// What a fast Fourier transform does between its multiplies: sums and differences of the two halves of a tile, where
// one lane holds an element of either half. Rows r and r + 8 of a warp's 16 (see warpgroup::load_halves), columns c and
// c + cols / 2. All are in place; the exchanges only rename registers.
#pragma once

namespace kittens {

// The lower 8 rows of `upper` and the upper 8 of `lower`, exchanged: then each holds one half of both.
template <register_tile Tile> kittens_device void exchange_rows(Tile& upper, Tile& lower) {
    each_row_couple(
        [](int, auto of_upper, auto of_lower) {
            const auto moved = of_upper.second;
            of_upper.second = of_lower.first, of_lower.first = moved;
        },
        upper, lower);
}
// The right half of `left` and the left half of `right`, exchanged.
template <register_tile Tile> kittens_device void exchange_cols(Tile& left, Tile& right) {
    each_col_couple(
        [](auto of_left, auto of_right) {
            const auto moved = of_left.second;
            of_left.second = of_right.first, of_right.first = moved;
        },
        left, right);
}

// (left, right) = (left + right, left - right).
template <register_tile Tile> kittens_device void butterfly_cols(complex<Tile>& x) {
    const auto turn = [](auto couple) {
        const float left = couple.first, right = couple.second;
        couple.first = left + right, couple.second = left - right;
    };
    each_col_couple([&](auto real, auto imag) { turn(real), turn(imag); }, x.real, x.imag);
}

// (upper, lower) = (upper + w lower, upper - w lower), w the lower row's value.
template <register_tile Tile, register_vec Vec>
kittens_device void butterfly_rows(complex<Tile>& x, const complex<Vec>& w) {
    each_row_couple(
        [&](int row, auto real, auto imag) {
            const float wr = w.real.data[row], wi = w.imag.data[row];
            const float upper_real = real.first, upper_imag = imag.first;
            real.first = upper_real + wr * real.second - wi * imag.second;
            imag.first = upper_imag + wr * imag.second + wi * real.second;
            real.second = 2.f * upper_real - real.first, imag.second = 2.f * upper_imag - imag.first;
        },
        x.real, x.imag);
}
// (upper, lower) = (upper + lower, conj(w) (upper - lower)): the transform back, in the reverse order.
template <register_tile Tile, register_vec Vec>
kittens_device void butterfly_rows_back(complex<Tile>& x, const complex<Vec>& w) {
    each_row_couple(
        [&](int row, auto real, auto imag) {
            const float wr = w.real.data[row], wi = w.imag.data[row];
            const float real_difference = real.first - real.second, imag_difference = imag.first - imag.second;
            real.first += real.second, imag.first += imag.second;
            real.second = wr * real_difference + wi * imag_difference;
            imag.second = wr * imag_difference - wi * real_difference;
        },
        x.real, x.imag);
}

namespace warpgroup {

template <register_tile Dst, shared_tile Src>
kittens_device void load_halves(complex<Dst>& dst, const complex<Src>& src, site where = kittens_here) {
    warpgroup::load_halves(dst.real, src.real, where);
    warpgroup::load_halves(dst.imag, src.imag, where);
}
template <shared_tile Dst, register_tile Src>
kittens_device void store_halves(complex<Dst>& dst, const complex<Src>& src, site where = kittens_here) {
    warpgroup::store_halves(dst.real, src.real, where);
    warpgroup::store_halves(dst.imag, src.imag, where);
}

}  // namespace warpgroup
}  // namespace kittens
