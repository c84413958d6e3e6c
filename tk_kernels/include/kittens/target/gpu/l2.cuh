// GPU targets: what the L2 cache is told of a tensor's loads.
#pragma once

#include "kittens/target/gpu/registers.cuh"
#include "kittens/types/global.cuh"

namespace kittens {

template <typename Src>
inline constexpr bool is_hinted = is_used<Src, tensor_use::loaded_once> || is_used<Src, tensor_use::loaded_often>;

// As an operand of a copy; PTX ISA 9.0, "Cache Eviction Priority Hints" and "createpolicy".
template <global_tensor Src> kittens_device uint64_t l2_policy() {
    uint64_t policy;
    if constexpr (is_used<Src, tensor_use::loaded_once>)
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    else asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

}  // namespace kittens
