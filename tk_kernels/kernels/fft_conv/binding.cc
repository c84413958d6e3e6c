// Exports the long convolution to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>
#include <tuple>

#include "fft_conv.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

constexpr std::int64_t columns = tk::fft_conv::columns, tile_rows = tk::fft_conv::tile_rows;

tk::fft_conv::tensor as_sequences(const TensorView& tensor) {
    return {tensor.data_ptr(), stride_of(tensor, 0), stride_of(tensor, 1)};
}

// u, y: (B, D, length); spectrum: (D, 2, rows, 64); constants: (constant_rows, 64), of 128 rows twice. Returns 0 when
// it is launched, else launches nothing and returns which operands need a dense copy: 1 for u, 2 for spectrum.
std::int64_t fft_conv(TensorView u, TensorView spectrum, TensorView constants, TensorView y, bool causal) {
    for (const auto& [name, tensor, rank] : {std::tuple{"u", u, 3}, std::tuple{"k_f", spectrum, 4},
                                             std::tuple{"constants", constants, 2}, std::tuple{"y", y, 3}}) {
        require_tensor(name, tensor, rank, {bfloat16});
        require_device(name, tensor, {"u", u});
    }
    const std::int64_t batch = u.size(0), channels = u.size(1), length = u.size(2), rows = spectrum.size(2);
    require_shape("k_f", spectrum, {channels, 2, rows, columns}, "a spectrum of each channel of u");
    const std::int64_t halves = rows > tile_rows ? 2 : 1;
    require_shape("constants", constants, {halves * tk::fft_conv::constant_rows, columns}, "the matrices");
    require_shape("y", y, u.shape(), "that of u");
    const std::int64_t multiple = rows >= tile_rows ? 2 * columns : columns;
    if (length % multiple != 0 || length > rows * columns) {
        TVM_FFI_THROW(ValueError) << "u: got length " << length << ", needs a multiple of " << multiple << " up to "
                                  << rows * columns;
    }
    if (!is_addressable(y)) TVM_FFI_THROW(ValueError) << "y: needs aligned strides and base";
    if (!is_dense(constants)) TVM_FFI_THROW(ValueError) << "constants: need to be dense";
    const std::int64_t copies = copies_of({u}) | (is_dense(spectrum) ? 0 : 2);
    if (copies != 0) return copies;
    launching([&] {
        tk::fft_conv::launch({batch, channels, length, rows, causal, as_sequences(u), as_sequences(y),
                              spectrum.data_ptr(), constants.data_ptr()},
                             stream_of(u));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(fft_conv, fft_conv);
