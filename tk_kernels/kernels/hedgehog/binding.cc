// Exports Hedgehog attention to Python, in either unit. The operator has checked dtypes, shapes and devices.
#include "hedgehog.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// Writes out and, unless they are empty, the states. `segments` of a sequence, or -1 to choose. Returns 0 when it is
// launched, else launches nothing and returns which operands need a dense copy: bit i for the i-th argument.
std::int64_t hedgehog(TensorView q, TensorView k, TensorView v, TensorView q_map, TensorView k_map, TensorView alpha,
                      TensorView beta, TensorView out, TensorView k_state, TensorView kv_state, std::int64_t segments) {
    using namespace tk::hedgehog;
    std::int64_t copies = copies_of({q, k, v}), bit = 8;
    for (const TensorView& tensor : {q_map, k_map, alpha, beta}) {
        if (!tensor.IsContiguous() || (tensor.ndim() == 3 && !is_aligned(tensor))) copies |= bit;
        bit *= 2;
    }
    if (copies != 0) return copies;
    launching([&] {
        const problem p{q.size(0), q.size(1), q.size(2)};
        const int count = tk::hedgehog::segments(p, narrow(segments));
        const Tensor memory = scratch(scratch_elements(p, count), q);
        const bool keeps = kv_state.numel() > 0;
        const states finals{keeps ? numbers(k_state) : nullptr, keeps ? numbers(kv_state) : nullptr};
        forward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out),
                {q_map.data_ptr(), k_map.data_ptr(), numbers(alpha), numbers(beta)}, finals, count, data_of(memory),
                stream_of(q));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(hedgehog, hedgehog);
