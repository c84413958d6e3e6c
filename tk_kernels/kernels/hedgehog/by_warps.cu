// The launches of the kernel by warps.
#include "by_warps.cuh"
#include "launch.cuh"

namespace tk::hedgehog {

int segments(const problem& p, int wanted) { return segments_of<value_parts>(p, wanted); }

void forward(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out,
             const head_weights& heads, const states& finals, int count, float* scratch, void* stream) {
    run_segments<warps_kernel, value_parts>(p, q, k, v, out, heads, finals, count, scratch, stream);
}

}  // namespace tk::hedgehog
