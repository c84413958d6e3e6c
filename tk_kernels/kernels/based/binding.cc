// Exports Based to Python: launches on the caller's stream.
#include <cstdint>

#include "based.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// Writes out, and the state in the kernel's own order where it is given. Returns 0 when it is launched, else launches
// nothing and returns which operands need a copy that the TMA can address: 1 for q, 2 for k, 4 for v.
std::int64_t based(TensorView q, TensorView k, TensorView v, TensorView out, Optional<TensorView> state,
                   Optional<TensorView> pairs, bool normalize, std::int64_t segments) {
    const std::int64_t batch = q.size(0), heads = q.size(1), rows = q.size(2);
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    launching([&] {
        const tk::based::problem p{batch, heads, rows, normalize};
        const tk::based::options options{narrow(segments)};
        const std::int64_t cut = tk::based::segments(p, options);
        Tensor memory;
        if (cut > 1)
            memory = scratch(batch * heads * (cut - 1) * (tk::based::state_elements + tk::based::pair_elements), q);
        tk::based::launch(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), numbers(state), numbers(pairs),
                          cut > 1 ? data_of(memory) : nullptr, options, stream_of(q));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(based, based);
