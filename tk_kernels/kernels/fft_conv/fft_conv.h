// The host interface of the long convolution: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>

namespace tk::fft_conv {

// A transform of 64 rows points is done on a matrix of so many rows and 64 columns; 16, 32, 64 and, where it is not
// causal, 128 are built.
constexpr int columns = 64, tile_rows = 64, half_rows = tile_rows / 2;

// Where the constants lie in their matrix of 64 columns: in blocks of 32 rows, tiles of 64, and rows.
constexpr int even_block = 2, odd_block = 4, back_odd_block = 6, twiddle_tile = 4, turn_row = 384, constant_rows = 388;

// A bf16 tensor (batch, channels, length): unit stride along the length, the other strides in elements. For the TMA the
// base address is a multiple of 16 bytes and the strides are multiples of 8 elements.
struct tensor {
    void* data;
    std::int64_t batch_stride, channel_stride;
};

// `length`, a multiple of 64 (of 128 from 64 rows on), is at most the 64 rows points of the transform; what is missing
// counts as zeros.
struct problem {
    std::int64_t batch, channels, length, rows;
    bool causal;
    tensor u, y;
    const void*
        spectrum;  // (channels, 2, rows, 64), dense: real and imaginary parts of the filter's transform over its
                   // number of points, frequency c + rows d (causal: a quarter more) at (c, d / 2 + d % 2 * 32)
    const void* constants;  // (constant_rows, 64), of 128 rows twice, dense: the factors that README.md lists
};

// y = Re ifft(fft(u) spectrum), or the causal convolution. Throws std::invalid_argument for problems that no kernel is
// built for.
void launch(const problem&, void* stream);

}  // namespace tk::fft_conv
