// Exports the rotary embedding to Python: launches on the caller's stream.
#include <cstdint>

#include "rotary.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// Computes out from x, which it may be. Returns 0 when it is launched, else launches nothing and returns which operands
// need a dense copy: 1 for x, 2 for cos, 4 for sin.
std::int64_t rotary(TensorView x, TensorView cosine, TensorView sine, TensorView out, bool rows_first, bool interleaved,
                    bool conjugate) {
    const std::int64_t N = x.size(rows_first ? 1 : 2), H = x.size(rows_first ? 2 : 1);
    const std::int64_t copies = copies_of({x, cosine, sine});
    if (copies != 0) return copies;
    require_output("out", out);
    const dimensions& where = rows_first ? tk::binding::rows_first : heads_first;
    const tk::rotary::problem problem{as_tensor(out, where),
                                      as_tensor(x, where),
                                      {cosine.data_ptr(), stride_of(cosine, 0)},
                                      {sine.data_ptr(), stride_of(sine, 0)},
                                      x.size(0),
                                      H,
                                      N,
                                      static_cast<int>(x.size(3)),
                                      static_cast<int>(2 * cosine.size(1)),
                                      interleaved,
                                      conjugate,
                                      cosine.dtype().bits == 32};
    launching([&] { tk::rotary::launch(problem, stream_of(x)); });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rotary, rotary);
