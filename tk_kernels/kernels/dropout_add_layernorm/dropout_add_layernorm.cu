// Dropout, residual addition and layer normalisation in one pass: r = residual + dropout(x), y = norm(r) weight + bias.
//
// A warp holds up to 512 elements of a row, 16 a lane: rows of up to 512 elements belong to one warp, longer ones to a
// block of 2, 4, 8 or 16 warps, which exchange two sums through shared memory. x and residual are loaded whole before
// either is used, four loads of 16 bytes a thread; 64 registers leave room for 32 warps a multiprocessor, or 70, where
// weight and bias are loaded with the row, for 28. r stays in registers in fp32; mean and variance are taken from it in
// two steps (the variance about the mean, without cancellation), and only then is it rounded.
//
// Dropout by Philox 4x32-10: one call for four elements, numbered by their place in the tensor (row * D + column), so
// that neither the grid nor the shape of a block matters. Without dropout (p = 0) no generator is in the kernel, and
// the mask is computed, again from the generator, only when it is asked for.
//
// Problems: D a multiple of 64 up to 8192, any number of rows. Bytes at least: x, residual in; y, r out.
#include <algorithm>
#include <cmath>

#include "dropout_add_layernorm.h"

#include "kittens.cuh"

namespace tk::dropout_add_layernorm {
using namespace kittens;

template <typename T> using rows_of = gl<T, 1, 1, dynamic, dynamic>;

template <int Units, int RowWarps, bool Drops> struct kernel {
    static constexpr int warps = RowWarps == 1 ? 4 : RowWarps, cluster_blocks = 1;
    // Weights that are loaded with the row take registers: 28 warps (24 in blocks of 8), but 32 where the next number
    // below is 16.
    static constexpr int blocks_per_sm = (Drops ? limits::warps_of(32) : RowWarps == 16 ? 32 : 28) / warps;
    static constexpr int block_rows = warps / RowWarps, span = 256 * Units;  // rows of a block; columns of a warp
    using halves = rl<bf16, 1, span>;
    using floats = rl<float, 1, span>;

    struct globals {
        rows_of<bf16> x, residual, normed, sum;
        rows_of<uint8_t> mask;
        rows_of<bf16> weight, bias;  // one of the two kinds; data is null where there is none
        rows_of<float> weight_float, bias_float;
        float eps, mean_factor;  // 1 / D, or 0 for the root mean square
        dropout which;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        auto& means = *memory.allocate<sv<float, 16>>("means");
        auto& squares = *memory.allocate<sv<float, 16>>("squares");
        const int col = RowWarps == 1 ? 0 : warp_index() * span;
        for (int row = block_index() * block_rows + (RowWarps == 1 ? warp_index() : 0); row < g.x.rows();
             row += block_count() * block_rows) {
            const element_coord at{0, 0, row, col};
            if (g.weight_float.data != nullptr) normalise(g, g.weight_float, g.bias_float, at, means, squares);
            else normalise(g, g.weight, g.bias, at, means, squares);
        }
    }

    // A warp's part of a row.
    template <typename Weights>
    kittens_device static void normalise(const globals& g, const Weights& weight, const Weights& bias, element_coord at,
                                         sv<float, 16>& means, sv<float, 16>& squares) {
        constexpr bool early = sizeof(typename Weights::T) == 2 && !Drops;  // else registers are too few
        rl<typename Weights::T, 1, span> w, b;
        halves x, residual;
        load(x, g.x, at);
        load(residual, g.residual, at);
        if constexpr (early) load_affine(w, b, weight, bias, at.c);
        floats r;
        add_residual(r, x, residual, g, at);
        store<reuse::once>(g.sum, r, at);
        const float mean = total(sum(r), means) * g.mean_factor;
        map_lines(r, [=](float v) { return v - mean; }, r);
        const float variance = total(sum_of_squares(r, g.x.cols() - at.c), squares) / g.x.cols();
        const float scale = math::rsqrt(variance + g.eps);
        if constexpr (!early) load_affine(w, b, weight, bias, at.c);
        map_lines(r, [=](float v, float factor, float shift) { return v * scale * factor + shift; }, r, w, b);
        store<reuse::once>(g.normed, r, at);
    }

    kittens_device static void add_residual(floats& r, const halves& x, const halves& residual, const globals& g,
                                            element_coord at) {
        if constexpr (Drops) {
            const int64_t first = int64_t(at.r) * g.x.cols() + at.c;
            drop(r, x, g.which, first);
            map_lines(r, ops::add{}, residual, r);
            if (g.mask.data != nullptr) {
                rl<uint8_t, 1, span> mask;
                keep_mask(mask, g.which, first);
                store(g.mask, mask, at);
            }
        } else {
            map_lines(r, ops::add{}, residual, x);
        }
    }

    // Over the warps that share a row.
    kittens_device static float total(float value, sv<float, 16>& parts) {
        if constexpr (RowWarps == 1) return value;
        else return block_sum<RowWarps>(value, parts);
    }

    // Over the columns that there are: what lies beyond is the mean away from zero.
    kittens_device static float sum_of_squares(const floats& r, int cols) {
        return sum(r, [=](int, int col, float v) { return col < cols ? v * v : 0.f; });
    }

    template <typename Lines, typename Weights>
    kittens_device static void load_affine(Lines& w, Lines& b, const Weights& weight, const Weights& bias, int col) {
        load(w, weight, {0, 0, 0, col});
        if (bias.data != nullptr) load(b, bias, {0, 0, 0, col});
        else map_lines(b, [](float) { return 0.f; }, w);
    }
};

namespace {

template <typename T> rows_of<T> rows(const matrix& m, int count, int cols) {
    return rows_of<T>(static_cast<T*>(m.data), 1, 1, count, cols, m.row_stride, 0, 0);
}
template <typename T> rows_of<T> vector(const void* data, bool given, int cols) {
    return rows_of<T>(given ? static_cast<T*>(const_cast<void*>(data)) : nullptr, 1, 1, 1, cols, cols, 0, 0);
}

struct tensors {
    const matrix &normed, &sum, &mask, &x, &residual;
    const void *weight, *bias;
};

template <typename Kernel> void start(const tensors& t, const problem& p, void* stream) {
    const int count = int(p.rows), cols = p.cols;
    const double threshold = std::floor(p.p * 4294967296.0 + 0.5);
    const typename Kernel::globals globals{
        rows<bf16>(t.x, count, cols),
        rows<bf16>(t.residual, count, cols),
        rows<bf16>(t.normed, count, cols),
        rows<bf16>(t.sum, count, cols),
        rows<uint8_t>(t.mask, count, cols),
        vector<bf16>(t.weight, !p.weights_float, cols),
        vector<bf16>(t.bias, !p.weights_float, cols),
        vector<float>(t.weight, p.weights_float, cols),
        vector<float>(t.bias, p.weights_float, cols),
        p.eps,
        p.rms ? 0.f : 1.f / float(cols),
        {p.seed, p.offset, std::uint32_t(std::min(threshold, 4294967295.0)), float(1.0 / (1.0 - p.p))}};
    const int needed = (count - 1) / Kernel::block_rows + 1;
    const int blocks = p.blocks > 0 ? std::min(p.blocks, needed) : needed;
    kittens::launch<Kernel>({blocks, 1024}, stream, globals);
}

template <bool Drops> void start_of(const tensors& t, const problem& p, void* stream) {
    if (p.cols <= 256) start<kernel<1, 1, Drops>>(t, p, stream);
    else if (p.cols <= 512) start<kernel<2, 1, Drops>>(t, p, stream);
    else if (p.cols <= 1024) start<kernel<2, 2, Drops>>(t, p, stream);
    else if (p.cols <= 2048) start<kernel<2, 4, Drops>>(t, p, stream);
    else if (p.cols <= 4096) start<kernel<2, 8, Drops>>(t, p, stream);
    else start<kernel<2, 16, Drops>>(t, p, stream);
}

}  // namespace

void launch(const matrix& normed, const matrix& sum, const matrix& mask, const matrix& x, const matrix& residual,
            const void* weight, const void* bias, const problem& p, void* stream) {
    const tensors t{normed, sum, mask, x, residual, weight, bias};
    if (p.p > 0.0) start_of<true>(t, p, stream);
    else start_of<false>(t, p, stream);
}

}  // namespace tk::dropout_add_layernorm
