// GPU targets: macros, scalar types, call sites, identities.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#define kittens_device __device__ __forceinline__
#define kittens_host_device __host__ __device__ __forceinline__
#define kittens_here \
    ::kittens::site {}

namespace kittens {

// Where an operation was called. The cpu target names it in its reports; here it costs nothing.
struct site {};

using bf16 = __nv_bfloat16;
using half = __half;
// 8 bits: 4 of exponent, 3 of mantissa; no infinity, 448 is the largest.
struct e4m3 {
    uint8_t bits;
};

kittens_host_device float to_float(float x) { return x; }
kittens_host_device float to_float(bf16 x) { return __bfloat162float(x); }
kittens_host_device float to_float(half x) { return __half2float(x); }
kittens_device float to_float(e4m3 x) {
    uint32_t two;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"(uint16_t(x.bits)));
    return __half2float(__ushort_as_half(uint16_t(two)));
}

// Rounds to nearest even; e4m3 saturates at its largest value, and a NaN stays one.
template <typename T> kittens_host_device T from_float(float x);
template <> kittens_host_device float from_float<float>(float x) { return x; }
template <> kittens_host_device bf16 from_float<bf16>(float x) { return __float2bfloat16_rn(x); }
template <> kittens_host_device half from_float<half>(float x) { return __float2half_rn(x); }
template <> kittens_device e4m3 from_float<e4m3>(float x) {
    uint16_t two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.f), "f"(x));
    return e4m3{uint8_t(two)};
}

// Two elements rounded from two floats, in one instruction for types of 16 and 8 bits.
template <typename T> kittens_device uint32_t pack(float x, float y);
template <> kittens_device uint32_t pack<bf16>(float x, float y) {
    auto packed = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<uint32_t*>(&packed);
}
template <> kittens_device uint32_t pack<half>(float x, float y) {
    auto packed = __floats2half2_rn(x, y);
    return *reinterpret_cast<uint32_t*>(&packed);
}

template <> kittens_device uint32_t pack<e4m3>(float x, float y) {
    uint16_t packed;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(y), "f"(x));
    return packed;
}

// Scalar functions of the maps: the hardware's approximations where it has them (ex2, lg2: 2 ulp; rsqrt: 2 ulp;
// reciprocal: 1 ulp, and zero instead of subnormal numbers).
namespace math {
kittens_device float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
kittens_device float exp(float x) { return exp2(x * 1.4426950408889634f); }
kittens_device float log2(float x) { return __log2f(x); }
kittens_device float log(float x) { return __logf(x); }
kittens_device float log1p(float x) { return log1pf(x); }
kittens_device float rsqrt(float x) { return rsqrtf(x); }
kittens_device float sqrt(float x) { return sqrtf(x); }
kittens_device float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
kittens_device float tanh(float x) { return tanhf(x); }
kittens_device float abs(float x) { return fabsf(x); }
kittens_device float max(float x, float y) { return fmaxf(x, y); }
kittens_device float min(float x, float y) { return fminf(x, y); }
}  // namespace math

// --- who am I -------------------------------------------------------------------------------------------------
kittens_device int lane() { return threadIdx.x % 32; }
// Broadcast, so that the compiler knows that it is the same for the whole warp.
kittens_device int warp_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0); }
kittens_device int warpgroup_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); }
kittens_device int warp_in_group() { return warp_index() % 4; }
kittens_device int block_index() { return blockIdx.x; }
kittens_device int block_count() { return gridDim.x; }

// --- addresses ------------------------------------------------------------------------------------------------
kittens_device uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- errors ---------------------------------------------------------------------------------------------------
inline void check_cuda(cudaError_t error, const char* doing) {
    if (error == cudaSuccess) return;
    throw std::runtime_error(std::string(doing) + ": " + cudaGetErrorString(error));
}

}  // namespace kittens
