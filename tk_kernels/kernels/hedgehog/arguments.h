// What the bindings of Hedgehog's kernels share: every argument is checked, then the kernel is launched.
#pragma once

#include <cstdint>
#include <utility>

#include "hedgehog.h"
#include "tk/binding.h"

namespace tk::hedgehog {

using namespace tk::binding;

constexpr std::int64_t head_dim = 128, feature_dim = 64;

// Writes out and, unless they are empty, the states. `segments` of a sequence, or -1 to choose. Returns 0 when it is
// launched, else launches nothing and returns which operands need a dense copy: bit i for the i-th argument.
inline std::int64_t launch(decltype(segments)& segments_of, decltype(forward)& run, TensorView q, TensorView k,
                           TensorView v, TensorView q_map, TensorView k_map, TensorView alpha, TensorView beta,
                           TensorView out, TensorView k_state, TensorView kv_state, std::int64_t segments) {
    require_tensor("q", q, 4, {bfloat16});
    if (q.size(3) != head_dim) {
        TVM_FFI_THROW(ValueError) << "q: got head dim " << q.size(3) << ", supported is " << head_dim;
    }
    const std::int64_t B = q.size(0), H = q.size(1), N = q.size(2);
    for (const auto& [name, tensor] : {std::pair{"k", k}, std::pair{"v", v}, std::pair{"out", out}}) {
        require_tensor(name, tensor, 4, {bfloat16});
        require_device(name, tensor, {"q", q});
        require_shape(name, tensor, q.shape(), "that of q");
    }
    for (const auto& [name, map] : {std::pair{"q_map", q_map}, std::pair{"k_map", k_map}}) {
        require_tensor(name, map, 3, {bfloat16});
        require_device(name, map, {"q", q});
        require_shape(name, map, {H, head_dim, feature_dim}, "a map of each head of q");
    }
    for (const auto& [name, weight] : {std::pair{"alpha", alpha}, std::pair{"beta", beta}}) {
        require_tensor(name, weight, 1, {float32});
        require_device(name, weight, {"q", q});
        require_shape(name, weight, {H}, "a number for each head of q");
    }
    require_output("out", out);
    states finals{nullptr, nullptr};
    if (kv_state.numel() > 0) {
        finals.k = numbers("k_state", k_state, {B, H, 2 * feature_dim}, "the sums of each head", {"q", q});
        finals.kv = numbers("kv_state", kv_state, {B, H, 2 * feature_dim, head_dim}, "the sums of each head", {"q", q});
    }
    std::int64_t copies = copies_of({q, k, v}), bit = 8;
    for (const TensorView& tensor : {q_map, k_map, alpha, beta}) {
        if (!tensor.IsContiguous() || (tensor.ndim() == 3 && !is_aligned(tensor))) copies |= bit;
        bit *= 2;
    }
    if (copies != 0) return copies;
    launching([&] {
        const problem p{B, H, N};
        const int count = segments_of(p, narrow(segments));
        const Tensor memory = scratch(scratch_elements(p, count), q);
        const auto weights = [](const TensorView& tensor) { return static_cast<const float*>(tensor.data_ptr()); };
        run(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out),
            {q_map.data_ptr(), k_map.data_ptr(), weights(alpha), weights(beta)}, finals, count, data_of(memory),
            stream_of(q));
    });
    return 0;
}

}  // namespace tk::hedgehog
