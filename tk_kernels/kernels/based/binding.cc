// Exports Based to Python: checks every argument, then launches on the caller's stream.
#include <cstdint>

#include "based.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

void require_rows(const char* name, const TensorView& tensor, std::int64_t dim, const TensorView& q) {
    require_tensor(name, tensor, 4, {bfloat16});
    require_device(name, tensor, {"q", q});
    require_shape(name, tensor, {q.size(0), q.size(1), q.size(2), dim}, "the rows of q and the built dims");
}

// Writes out, and the state in the kernel's own order where it is given. Returns 0 when it is launched, else launches
// nothing and returns which operands need a copy that the TMA can address: 1 for q, 2 for k, 4 for v.
std::int64_t based(TensorView q, TensorView k, TensorView v, TensorView out, Optional<TensorView> state,
                   Optional<TensorView> pairs, bool normalize, std::int64_t segments) {
    require_tensor("q", q, 4, {bfloat16});
    const std::int64_t batch = q.size(0), heads = q.size(1), rows = q.size(2);
    require_rows("q", q, tk::based::feature_dim, q);
    require_rows("k", k, tk::based::feature_dim, q);
    require_rows("v", v, tk::based::value_dim, q);
    require_rows("out", out, tk::based::value_dim, q);
    if (segments < 0 || segments > tk::based::most_segments) {
        TVM_FFI_THROW(ValueError) << "segments: got " << segments << ", needs 0 (chosen by shape) to "
                                  << tk::based::most_segments;
    }
    const char* const kept = "the state in the kernel's order";
    float* const state_to =
        numbers("state", state, {batch, heads, tk::based::features, tk::based::value_dim}, kept, {"q", q});
    float* const pairs_to =
        numbers("pairs", pairs, {batch, heads, tk::based::pair_rows, tk::based::feature_dim}, kept, {"q", q});
    require_output("out", out);
    const std::int64_t copies = copies_of({q, k, v});
    if (copies != 0) return copies;
    launching([&] {
        const tk::based::problem p{batch, heads, rows, normalize};
        const tk::based::options options{narrow(segments)};
        const std::int64_t cut = tk::based::segments(p, options);
        Tensor memory;
        if (cut > 1)
            memory = scratch(batch * heads * (cut - 1) * (tk::based::state_elements + tk::based::pair_elements), q);
        tk::based::launch(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), state_to, pairs_to,
                          cut > 1 ? data_of(memory) : nullptr, options, stream_of(q));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(based, based);
