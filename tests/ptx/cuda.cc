// As much of the CUDA runtime as the kernels' host code calls: one device of a few multiprocessors, whose memory is the
// process's own, and launches that run the translated PTX before they return.
#include <map>
#include <string>

#include "machine.h"

namespace {

std::map<const void*, std::string>& names() {
    static std::map<const void*, std::string> of_functions;
    return of_functions;
}

constexpr int multiprocessors = 4;
// What a block may have: 99 KB, as on RTX 30 and 40, or as many as PTX_BLOCK_KB says (163 on an A100).
int block_shared_bytes() {
    const char* kilobytes = getenv("PTX_BLOCK_KB");
    return (kilobytes ? atoi(kilobytes) : 99) * 1024;
}
struct dim3 {
    unsigned x, y, z;
};
struct attribute {
    int id, padding;
    char value[64];
};
struct launch_config {
    dim3 grid, block;
    size_t shared_bytes;
    void* stream;
    const attribute* attributes;
    unsigned count;
};
// Numbers of the runtime's enumerations.
enum { multiprocessor_count = 16, multiprocessor_shared_bytes = 81, block_shared_bytes_optin = 97, cooperative = 2 };

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
    static void* handle;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* device, int, void*, void*, void*, void*,
                            int*) {
    names()[host] = device;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
int __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return 0; }
int __cudaGetKernel(void** kernel, const void* function) {
    *kernel = const_cast<void*>(function);
    return 0;
}
int __cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, void*) { ptx::fail("a launch by <<<>>>"); }

int cudaGetDevice(int* device) {
    *device = 0;
    return 0;
}
int cudaDeviceGetAttribute(int* value, int which, int) {
    *value = which == multiprocessor_count          ? multiprocessors
             : which == multiprocessor_shared_bytes ? block_shared_bytes() + 1024
             : which == block_shared_bytes_optin    ? block_shared_bytes()
                                                    : 1;
    return 0;
}
int cudaGetLastError() { return 0; }
const char* cudaGetErrorString(int) { return "an error"; }
int cudaFuncSetAttribute(const void*, int, int) { return 0; }
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
    *blocks = 2;
    return 0;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
    *blocks = 2;
    return 0;
}
int cudaOccupancyMaxActiveClusters(int*, const void*, const void*) { ptx::fail("a cluster"); }
int cudaThreadExchangeStreamCaptureMode(int*) { return 0; }
int cudaHostAlloc(void** memory, size_t bytes, unsigned) {
    *memory = calloc(1, bytes);
    return 0;
}
int cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    *device = host;
    return 0;
}
int cudaMemsetAsync(void* memory, int value, size_t bytes, void*) {
    memset(memory, value, bytes);
    return 0;
}
int cudaLaunchKernelExC(const launch_config* config, const void* function, void** arguments) {
    const ptx::program* program = ptx::find(names()[function].c_str());
    if (program == nullptr) ptx::fail("a kernel that was not translated");
    if (config->shared_bytes > size_t(block_shared_bytes()))
        ptx::fail("a block with more shared memory than it may have");
    bool together = false;
    for (unsigned i = 0; i < config->count; i++) together = together || config->attributes[i].id == cooperative;
    ptx::run_grid(*program, int(config->grid.x), int(config->block.x), config->shared_bytes, arguments[0], together);
    return 0;
}

}  // extern "C"
