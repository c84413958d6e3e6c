// Which tiles a problem gets.
#include "by_warps.cuh"

namespace tk::attention {
namespace {

struct call : problem_view {
    const tensor &q, &k, &v, &out;
    float* lse;
    void* stream;

    template <int Dim, int Keys> void run() const {
        using kernel = warps_kernel<Dim, Keys>;
        const int row_blocks = int(divide_up(p.rows, kernel::rows));
        const float scale = p.scale == 0 ? 1e-30f : p.scale * log2_e;  // -inf times 0 would be no number
        kittens::launch<kernel>(
            {int(p.batch * p.heads) * row_blocks, kernel::shared_bytes}, stream,
            {queries(q), keys(k), keys(v), queries(out), row_values(lse, p.batch, p.heads, 1, p.rows), scale, visible(),
             divisor(row_blocks), divisor(int(p.heads)), divisor(int(p.heads / p.heads_kv))});
    }
};

}  // namespace

void forward_by_warps(const problem& p, const tensor& q, const tensor& k, const tensor& v, const tensor& out,
                      float* lse, void* stream) {
    require_counts("attention", 256, {p.rows, p.rows_kv, p.batch * p.heads * (p.rows / 64 + 1)});
    const call c{{p}, q, k, v, out, lse, stream};
    using wide = warps_kernel<128, 64>;
    const int two_blocks = wide::blocks_per_sm * (wide::shared_bytes + limits::reserved_shared_bytes);
    if (p.dim == 64) c.run<64, 128>();
    else if (two_blocks <= multiprocessor_shared_bytes()) c.run<128, 64>();
    else c.run<128, 32>();
}

}  // namespace tk::attention
