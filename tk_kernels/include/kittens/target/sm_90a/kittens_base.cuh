// sm_90a: macros, scalar types, call sites, identities, tensor maps.
#pragma once

#include <cuda.h>
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

// Two neighbouring elements of a register tile.
template <typename T> struct alignas(2 * sizeof(T)) pair {
    T x, y;
};

// A pair rounded from two floats, in one instruction for types of 16 and 8 bits.
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

// Scalar functions of the maps: the hardware's approximations where it has them (ex2, lg2: 2 ulp; rsqrt: 2 ulp; reciprocal:
// 1 ulp, and zero instead of subnormal numbers).
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
kittens_device float erf(float x) { return erff(x); }
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
kittens_device int cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return int(rank);
}

// One lane of the warp, the same every time.
kittens_device bool elect() {
    uint32_t chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
    return chosen != 0;
}

// --- addresses ------------------------------------------------------------------------------------------------
kittens_device uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- tensor maps ----------------------------------------------------------------------------------------------
inline void check_cuda(cudaError_t error, const char* doing) {
    if (error == cudaSuccess) return;
    throw std::runtime_error(std::string(doing) + ": " + cudaGetErrorString(error));
}

using encode_tiled_function = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                           const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                           CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                           CUtensorMapFloatOOBfill);

// The driver's encoder, found through the runtime so that nothing links to libcuda.
inline encode_tiled_function encode_tiled() {
    static const encode_tiled_function found = [] {
        void* address = nullptr;
        cudaDriverEntryPointQueryResult status;
        check_cuda(
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault, &status),
            "looking up cuTensorMapEncodeTiled");
        if (status != cudaDriverEntryPointSuccess || address == nullptr)
            throw std::runtime_error("the driver has no cuTensorMapEncodeTiled: CUDA 12.0 or newer is needed");
        return reinterpret_cast<encode_tiled_function>(address);
    }();
    return found;
}

template <typename T> inline constexpr CUtensorMapDataType tensor_map_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
template <> inline constexpr CUtensorMapDataType tensor_map_type<bf16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
template <> inline constexpr CUtensorMapDataType tensor_map_type<half> = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <> inline constexpr CUtensorMapDataType tensor_map_type<e4m3> = CU_TENSOR_MAP_DATA_TYPE_UINT8;

inline CUtensorMap encode_map(CUtensorMapDataType type, int element_bytes, const void* base, const int (&extent)[4],
                              const int64_t (&stride)[3], bool is_matrix, int box_rows, int box_cols,
                              CUtensorMapSwizzle swizzle) {
    // Innermost first: column, row, depth, batch.
    const cuuint64_t size[4] = {cuuint64_t(extent[3]), cuuint64_t(extent[2]), cuuint64_t(extent[1]),
                                cuuint64_t(extent[0])};
    const cuuint64_t pitch[3] = {cuuint64_t(stride[2]) * element_bytes, cuuint64_t(stride[1]) * element_bytes,
                                 cuuint64_t(stride[0]) * element_bytes};
    const cuuint32_t box[4] = {cuuint32_t(box_cols), cuuint32_t(box_rows), 1, 1};
    const cuuint32_t step[4] = {1, 1, 1, 1};
    CUtensorMap map;
    // The driver's encoder needs a current context, which a thread that has made no call of the runtime (autograd's
    // own, for example) has not.
    static thread_local const bool has_context = [] {
        int device;
        check_cuda(cudaGetDevice(&device), "cudaGetDevice");
        check_cuda(cudaSetDevice(device), "cudaSetDevice");
        return true;
    }();
    (void)has_context;
    CUresult result = encode_tiled()(&map, type, is_matrix ? 2 : 4, const_cast<void*>(base), size, pitch, box, step,
                                     CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_ERROR_INVALID_VALUE)
        throw std::invalid_argument(
            "tensor map: the base must be 16-byte aligned and every stride a multiple of 16 bytes");
    if (result != CUDA_SUCCESS)
        throw std::runtime_error("cuTensorMapEncodeTiled: driver error " + std::to_string(int(result)));
    return map;
}

// Tensor map of a shared tile or vector type: a box is one chunk of the tile's columns and all of its rows.
template <typename Tile> struct tensor_map {
    CUtensorMap value;

    tensor_map(const void* base, const int (&extent)[4], const int64_t (&stride)[3], bool is_matrix) {
        using T = typename Tile::T;
        if constexpr (requires { Tile::rows; }) {
            static_assert(Tile::rows <= 256, "tensor map: a TMA box has at most 256 rows; load sub-tiles");
            constexpr auto swizzle = Tile::chunk_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : Tile::chunk_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                               : CU_TENSOR_MAP_SWIZZLE_32B;
            value = encode_map(tensor_map_type<T>, sizeof(T), base, extent, stride, is_matrix, Tile::rows,
                               Tile::chunk_cols, swizzle);
        } else {
            static_assert(Tile::length <= 256, "tensor map: a TMA box of a vector has at most 256 elements");
            value = encode_map(tensor_map_type<T>, sizeof(T), base, extent, stride, is_matrix, 1, Tile::length,
                               CU_TENSOR_MAP_SWIZZLE_NONE);
        }
    }
};

}  // namespace kittens
