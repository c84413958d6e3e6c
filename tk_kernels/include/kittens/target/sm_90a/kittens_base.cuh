// sm_90a: scalars and identities, limits, the instructions of a warp that only this target has, tensor maps.
#pragma once

#include <cuda.h>

#include "kittens/target/gpu/scalars.cuh"
#include "kittens/target/sm_90a/limits.cuh"

namespace kittens {

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

// Four 8x8 matrices of 16-bit elements to shared memory, each row to an address that one lane gives; transposed, its
// columns.
template <bool Transposed> kittens_device void store_matrices(uint32_t to, const uint32_t (&piece)[4]) {
    if constexpr (Transposed)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                     "r"(piece[0]), "r"(piece[1]), "r"(piece[2]), "r"(piece[3])
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(piece[0]),
                     "r"(piece[1]), "r"(piece[2]), "r"(piece[3])
                     : "memory");
}

// --- tensor maps ----------------------------------------------------------------------------------------------
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
    // A row that begins inside a line has its 128 bytes in two: to fetch twice as much there costs 14 % (a GEMM of
    // 3000^3 on an H200).
    const auto fetched = pitch[0] % 128 == 0 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
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
    CUresult result =
        encode_tiled()(&map, type, is_matrix ? 2 : 4, const_cast<void*>(base), size, pitch, box, step,
                       CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, fetched, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
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
