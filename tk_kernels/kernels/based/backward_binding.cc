// Exports Based's backward pass to Python: launches on the caller's stream.
#include <cstdint>

#include "backward.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// Writes dq, dk, dv. Returns 0 when it is launched, else launches nothing and returns which operands need a copy that
// the TMA can address: 1 for q, 2 for k, 4 for v, 8 for dout, 16 for out.
std::int64_t based_backward(TensorView q, TensorView k, TensorView v, TensorView dout, TensorView out,
                            Optional<TensorView> dstate, Optional<TensorView> dpairs, bool normalize, TensorView dq,
                            TensorView dk, TensorView dv) {
    const std::int64_t copies = copies_of({q, k, v, dout, out});
    if (copies != 0) return copies;
    launching([&] {
        const tk::based::problem p{q.size(0), q.size(1), q.size(2), normalize};
        const Tensor rows = scratch(2 * p.batch * p.heads * p.rows, q);
        tk::based::backward(p,
                            {as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(dout), as_tensor(out), as_tensor(dq),
                             as_tensor(dk), as_tensor(dv), numbers(dstate), numbers(dpairs)},
                            data_of(rows), stream_of(q));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(based_backward, based_backward);
