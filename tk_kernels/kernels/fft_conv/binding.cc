// Exports the long convolution to Python: launches on the caller's stream.
#include <cstdint>

#include "fft_conv.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

tk::fft_conv::tensor as_sequences(const TensorView& tensor) {
    return {tensor.data_ptr(), stride_of(tensor, 0), stride_of(tensor, 1)};
}

// u, y: (B, D, length); spectrum: (D, 2, rows, 64); constants: (constant_rows, 64), of 128 rows twice. Returns 0 when
// it is launched, else launches nothing and returns which operands need a dense copy: 1 for u, 2 for spectrum.
std::int64_t fft_conv(TensorView u, TensorView spectrum, TensorView constants, TensorView y, bool causal) {
    const std::int64_t copies = copies_of({u}) | (is_dense(spectrum) ? 0 : 2);
    if (copies != 0) return copies;
    launching([&] {
        tk::fft_conv::launch({u.size(0), u.size(1), u.size(2), spectrum.size(2), causal, as_sequences(u),
                              as_sequences(y), spectrum.data_ptr(), constants.data_ptr()},
                             stream_of(u));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(fft_conv, fft_conv);
