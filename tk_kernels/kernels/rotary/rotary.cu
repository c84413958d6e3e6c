// Rotary embedding: every row of every head is turned by the angles of its position.
//
// One pass without shared memory and without a loop. A warp takes two heads and as many rows as its lanes hold 16 bytes of
// (4 rows of half of 128 entries): four loads of 16 bytes a thread and two of the tables, which stay in their own type until
// they are used, so that 48 registers are enough and 40 warps fit a multiprocessor. Half-split rows come as two lines, the
// entries and their partners, so that a lane holds both and nothing is exchanged; interleaved rows come as one line of twice
// the length, with half as many angles a run. Neighbouring warps take the same rows of the next heads and find the tables in
// the caches, where x and out take no place.
//
// Strides are the tensor's own: (B, H, N, D) and (B, N, H, D) are the same kernel. Entries beyond rotary_dim are copied,
// or left alone where the result replaces x.
//
// Problems: D 64 and 128, rotary_dim a multiple of 16, any B, H, N. Bytes at least: x in and out.
#include <stdexcept>
#include <string>

#include "rotary.h"

#include "kittens.cuh"

namespace tk::rotary {
using namespace kittens;

template <typename T> using tensor = gl<T, dynamic, dynamic, dynamic, dynamic>;
template <typename T> using table = gl<T, 1, 1, dynamic, dynamic>;

template <int D, bool Interleaved, typename Angle> struct kernel {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = sizeof(Angle) == 4 ? 8 : 10;
    static constexpr int rows = 512 / D, heads_at_once = 2;
    using line = rl<bf16, rows, Interleaved ? D : D / 2>;
    using angles = rl<Angle, rows, D / 2, Interleaved ? 4 : 8>;

    struct globals {
        tensor<bf16> in, out;  // the entries that are rotated; half-split, the first of each pair
        table<Angle> cosine, sine;
        int partner, rest_first, rest;  // columns from the first entry to its partner; of the entries that are copied
        bool conjugate;
        int tasks;  // head_groups * row_blocks * batches
        divisor head_groups, row_blocks;
    };

    kittens_device static void run(const globals& g) {
        const int task = block_index() * warps + warp_index();
        if (task >= g.tasks) return;
        const int outer = g.head_groups.divide(task), batch = g.row_blocks.divide(outer);
        const int row = (outer - batch * g.row_blocks.value) * rows;
        const int head = (task - outer * g.head_groups.value) * heads_at_once;
        angles cosine, sine;
        load(cosine, g.cosine, {0, 0, row, 0});
        load(sine, g.sine, {0, 0, row, 0});
        const auto in = columns(g.in, g.partner), out = columns(g.out, g.partner);
        line x[heads_at_once], partner[heads_at_once];
        const int heads = g.in.depth() - head;
#pragma unroll
        for (int h = 0; h < heads_at_once; h++)
            if (h < heads) {
                load<reuse::once>(x[h], g.in, {batch, head + h, row, 0});
                if constexpr (!Interleaved) load<reuse::once>(partner[h], in, {batch, head + h, row, 0});
            }
        if (g.conjugate) mul(sine, sine, -1.f);
#pragma unroll
        for (int h = 0; h < heads_at_once; h++)
            if (h < heads) {
                if constexpr (Interleaved) rotate_pairs(x[h], cosine, sine);
                else rotate(x[h], partner[h], cosine, sine);
                store<reuse::once>(g.out, x[h], {batch, head + h, row, 0});
                if constexpr (!Interleaved) store<reuse::once>(out, partner[h], {batch, head + h, row, 0});
            }
        if (g.rest > 0) copy_rest(g, batch, head, row);
    }

    // Entries beyond rotary_dim.
    kittens_device static void copy_rest(const globals& g, int batch, int first, int row) {
        auto in = columns(g.in, g.rest_first), out = columns(g.out, g.rest_first);
        in.extent[3] = out.extent[3] = g.rest;
        for (int head = first; head < first + heads_at_once && head < g.in.depth(); head++) {
            rl<bf16, rows, D> rest;
            load<reuse::once>(rest, in, {batch, head, row, 0});
            store<reuse::once>(out, rest, {batch, head, row, 0});
        }
    }

    // The tensor from a column on.
    kittens_device static tensor<bf16> columns(tensor<bf16> t, int first) {
        t.data += first;
        return t;
    }
};

namespace {

template <typename Kernel, typename Angle>
void start(const heads& out, const heads& x, const void* cosine, const void* sine, std::int64_t cosine_stride,
           std::int64_t sine_stride, const problem& p, void* stream) {
    const int B = int(p.B), H = int(p.H), N = int(p.N), half = p.rotary_dim / 2;
    const auto rotated = [&](const heads& t) {
        return tensor<bf16>(static_cast<bf16*>(t.data), B, H, N, p.interleaved ? p.rotary_dim : half, t.row_stride,
                            t.head_stride, t.batch_stride);
    };
    const auto angles = [&](const void* data, std::int64_t stride) {
        return table<Angle>(static_cast<Angle*>(const_cast<void*>(data)), 1, 1, N, half, stride, 0, 0);
    };
    const std::int64_t row_blocks = (p.N + Kernel::rows - 1) / Kernel::rows;
    const std::int64_t head_groups = (p.H + Kernel::heads_at_once - 1) / Kernel::heads_at_once;
    // Divided first: the product of three sizes may be beyond 64 bits.
    if (row_blocks * head_groups > (largest_size - Kernel::warps) / p.B)
        throw std::invalid_argument("x: got " + std::to_string(p.B) + " x " + std::to_string(p.H) + " x " +
                                    std::to_string(p.N) + " rows, more than the kernel can number");
    const int tasks = int(row_blocks * head_groups * p.B);
    const typename Kernel::globals globals{rotated(x),
                                           rotated(out),
                                           angles(cosine, cosine_stride),
                                           angles(sine, sine_stride),
                                           half,
                                           p.rotary_dim,
                                           out.data != x.data ? p.D - p.rotary_dim : 0,
                                           p.conjugate,
                                           tasks,
                                           divisor(int(head_groups)),
                                           divisor(int(row_blocks))};
    kittens::launch<Kernel>({(tasks + Kernel::warps - 1) / Kernel::warps, 0}, stream, globals);
}

template <int D, typename... Arguments> void start_of(const problem& p, Arguments... arguments) {
    if (p.interleaved && p.table_float) return start<kernel<D, true, float>, float>(arguments...);
    if (p.interleaved) return start<kernel<D, true, bf16>, bf16>(arguments...);
    if (p.table_float) return start<kernel<D, false, float>, float>(arguments...);
    return start<kernel<D, false, bf16>, bf16>(arguments...);
}

}  // namespace

void launch(const heads& out, const heads& x, const void* cosine, const void* sine, std::int64_t cosine_stride,
            std::int64_t sine_stride, const problem& p, void* stream) {
    if (p.rotary_dim < 16 || p.rotary_dim > p.D || p.rotary_dim % 16 != 0)
        throw std::invalid_argument("cos: got rotary dim " + std::to_string(p.rotary_dim) +
                                    ", supported are multiples of 16 up to the head dim " + std::to_string(p.D));
    if (p.D == 64) start_of<64>(p, out, x, cosine, sine, cosine_stride, sine_stride, p, stream);
    else if (p.D == 128) start_of<128>(p, out, x, cosine, sine, cosine_stride, sine_stride, p, stream);
    else throw std::invalid_argument("x: got head dim " + std::to_string(p.D) + ", supported are 64 and 128");
}

}  // namespace tk::rotary
