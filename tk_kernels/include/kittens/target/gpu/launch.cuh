// GPU targets: shared memory of a block, and launch.
#pragma once

#include "kittens/target/launch_shape.cuh"
#include "kittens/target/gpu/registers.cuh"

namespace kittens {

// Hands out the block's shared memory. Every warp makes the same calls in the same order and gets the same addresses.
struct shared_allocator {
    uint32_t used = 0;

    template <typename T> kittens_device T* allocate(const char* /*name*/, int count = 1) {
        extern __shared__ __align__(1024) unsigned char block_shared[];
        used = (used + uint32_t(alignof(T)) - 1) / uint32_t(alignof(T)) * uint32_t(alignof(T));
        T* result = reinterpret_cast<T*>(block_shared + used);
        used += uint32_t(sizeof(T)) * count;
        return result;
    }
};

#ifdef KITTENS_SLOWED_PERCENT
// A build that is slower by a known share, to try comparisons of runs on: each warp stays that much longer than it
// worked. When a warp began is kept in memory, because a register held throughout makes full kernels spill; warps 65536
// apart share an entry and are never resident together.
static __device__ uint32_t warp_began[65536];

template <typename Kernel> kittens_device void run_slowed(const typename Kernel::globals& globals) {
    const auto entry = [] { return (blockIdx.x * Kernel::warps + threadIdx.x / warp_threads) % 65536; };
    volatile uint32_t* const began = warp_began;
    began[entry()] = uint32_t(clock());
    Kernel::run(globals);
    const uint32_t ended = uint32_t(clock());
    const uint32_t linger = uint32_t((ended - began[entry()]) * (KITTENS_SLOWED_PERCENT / 100.0f));
    while (uint32_t(clock()) - ended < linger) {}
}
#endif

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::warps* warp_threads, Kernel::blocks_per_sm)
    kernel_entry(const __grid_constant__ typename Kernel::globals globals) {
#ifdef KITTENS_SLOWED_PERCENT
    run_slowed<Kernel>(globals);
#else
    Kernel::run(globals);
#endif
}

inline int current_device() {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "asking for the current device");
    return device;
}
template <cudaDeviceAttr Attribute> int of_current_device() {
    static thread_local int of_device[64] = {};
    const int device = current_device();
    int& known = of_device[device % 64];
    if (known == 0) check_cuda(cudaDeviceGetAttribute(&known, Attribute, device), "asking what the device has");
    return known;
}
// Streaming multiprocessors of the current device: how many blocks a persistent grid has.
inline int multiprocessors() { return of_current_device<cudaDevAttrMultiProcessorCount>(); }
// The shared memory that the blocks of one share, and what one of them may have; `limits` has what the least of a
// target's machines has.
inline int multiprocessor_shared_bytes() { return of_current_device<cudaDevAttrMaxSharedMemoryPerMultiprocessor>(); }
inline int block_shared_bytes() { return of_current_device<cudaDevAttrMaxSharedMemoryPerBlockOptin>(); }

// The kernel, which may ask for as much shared memory as a block of the current device can have. Throws
// std::runtime_error where that is less than `shared_bytes`.
template <typename Kernel> auto* entry_of(int shared_bytes) {
    static thread_local int raised_to[64] = {};  // on each device
    auto* entry = kernel_entry<Kernel>;
    int& most = raised_to[current_device() % 64];
    if (most == 0) {
        const int bytes = block_shared_bytes();
        check_cuda(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                   "raising the shared memory limit");
        most = bytes;
    }
    if (shared_bytes > most)
        throw std::runtime_error("a block of the kernel needs " + std::to_string((shared_bytes + 1023) / 1024) +
                                 " KB of shared memory, and one has " + std::to_string(most / 1024) +
                                 " KB on this GPU");
    return entry;
}

// Starts Kernel::run(globals) in every warp of `shape.blocks` blocks of Kernel::warps warps, in clusters; with
// Kernel::starts_early, while the kernel before it on the stream may still run. Throws std::runtime_error where CUDA
// refuses.
template <typename Kernel>
void launch(const launch_shape& shape, void* stream, const typename Kernel::globals& globals) {
    auto* entry = entry_of<Kernel>(shape.shared_bytes);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(shape.blocks);
    config.blockDim = dim3(Kernel::warps * warp_threads);
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = static_cast<cudaStream_t>(stream);
    cudaLaunchAttribute attributes[3];
    config.attrs = attributes;
    if (const int blocks = cluster_of<Kernel>(shape); blocks > 1) {
        cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {unsigned(blocks), 1, 1};
    }
    if (starts_early<Kernel> && limits::dependent_launch && !shape.first) {
        cudaLaunchAttribute& early = attributes[config.numAttrs++];
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.resident) {
        cudaLaunchAttribute& together = attributes[config.numAttrs++];
        together.id = cudaLaunchAttributeCooperative;
        together.val.cooperative = 1;
    }
    check_cuda(cudaLaunchKernelEx(&config, entry, globals), "launching the kernel");
}

// How many blocks of a launch are there at once; whole clusters of them.
template <typename Kernel> int resident_blocks(const launch_shape& shape) {
    struct answer {
        int shared_bytes, cluster_blocks, blocks;
    };
    static thread_local answer answered[64] = {};  // on each device, the last: it does not change
    answer& known = answered[current_device() % 64];
    auto* entry = entry_of<Kernel>(shape.shared_bytes);
    const int threads = Kernel::warps * warp_threads, cluster_blocks = cluster_of<Kernel>(shape);
    if (known.blocks > 0 && known.shared_bytes == shape.shared_bytes && known.cluster_blocks == cluster_blocks)
        return known.blocks;
    int count = 0;
    if (cluster_blocks == 1) {
        check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, entry, threads, size_t(shape.shared_bytes)),
                   "asking how many blocks a multiprocessor holds");
        count *= multiprocessors();
    } else {
        cudaLaunchAttribute cluster;
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {unsigned(cluster_blocks), 1, 1};
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(cluster_blocks);
        config.blockDim = dim3(threads);
        config.dynamicSmemBytes = shape.shared_bytes;
        config.attrs = &cluster;
        config.numAttrs = 1;
        check_cuda(cudaOccupancyMaxActiveClusters(&count, entry, &config), "asking how many clusters the device holds");
        count *= cluster_blocks;
    }
    known = {shape.shared_bytes, cluster_blocks, count};
    return count;
}

}  // namespace kittens
