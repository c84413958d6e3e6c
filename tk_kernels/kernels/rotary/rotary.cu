// Rotary embedding: every row of every head is turned by the angles of its position.
//
// One pass without shared memory and without a loop. A warp takes a task of two lines of as many rows as its lanes hold 16
// bytes of (4 rows of half of 128 entries), which turn by the same angles: four loads of 16 bytes a thread and two of the
// tables, which stay in their own type until they are used, so that few registers are enough for many warps. Half-split
// lines come with their partners, so that a lane holds both and nothing is exchanged; interleaved rows come as one line of
// twice the length, with half as many angles a run.
//
// The rows of a line are those that follow one another in memory: positions of a head where heads are far apart, and then
// a task is the same positions of two heads; heads of a position where those are closer, and then a task is 8 heads of it,
// whose angles are one row of the tables. Neighbouring warps take neighbouring rows.
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
template <typename T> using table = gl<T, 1, dynamic, dynamic, dynamic>;

template <int D, bool Interleaved, typename Angle> struct kernel {
    static constexpr int warps = 2, cluster_blocks = 1, blocks_per_sm = sizeof(Angle) == 4 ? 14 : 18;
    static constexpr int rows = 512 / D, lines = 2;  // of a line; of a task
    using line = rl<bf16, rows, Interleaved ? D : D / 2>;
    using angles = rl<Angle, rows, D / 2, Interleaved ? 4 : 8>;

    // Tensors of depth heads and a row a position, or of depth positions and a row a head; so are the tables, in which
    // every head has the same rows.
    struct globals {
        tensor<bf16> in, out;  // the entries that are rotated; half-split, the first of each pair
        table<Angle> cosine, sine;
        int partner, rest_first,
            rest;  // columns from an entry to its partner; first and number of those that are copied
        bool conjugate;
        int task_depth, task_rows, line_depth, line_rows;  // from task to task, and from line to line
        int tasks;
        divisor along_rows, along_depth;  // tasks
    };

    kittens_device static void run(const globals& g) {
        const int task = block_index() * warps + warp_index();
        if (task >= g.tasks) return;
        const int outer = g.along_rows.divide(task), batch = g.along_depth.divide(outer);
        const int row = (task - outer * g.along_rows.value) * g.task_rows;
        const int depth = (outer - batch * g.along_depth.value) * g.task_depth;
        const auto place = [&](int i) {
            return element_coord{batch, depth + i * g.line_depth, row + i * g.line_rows, 0};
        };
        const auto exists = [&](int i) { return i == 0 || place(i).d < g.in.depth(); };
        angles cosine, sine;
        load(cosine, g.cosine, {0, depth, row, 0});
        load(sine, g.sine, {0, depth, row, 0});
        const auto in = from_column(g.in, g.partner), out = from_column(g.out, g.partner);
        line x[lines], partner[lines];
#pragma unroll
        for (int i = 0; i < lines; i++)
            if (exists(i)) {
                load(x[i], g.in, place(i));
                if constexpr (!Interleaved) load(partner[i], in, place(i));
            }
        if (g.conjugate) mul(sine, sine, -1.f);
#pragma unroll
        for (int i = 0; i < lines; i++)
            if (exists(i)) {
                if constexpr (Interleaved) rotate_pairs(x[i], cosine, sine);
                else rotate(x[i], partner[i], cosine, sine);
                store(g.out, x[i], place(i));
                if constexpr (!Interleaved) store(out, partner[i], place(i));
            }
        if (g.rest == 0) return;
        for (int i = 0; i < lines; i++)
            if (exists(i)) copy_rest(g, place(i));
    }

    // Entries beyond rotary_dim.
    kittens_device static void copy_rest(const globals& g, element_coord at) {
        auto in = from_column(g.in, g.rest_first), out = from_column(g.out, g.rest_first);
        in.extent[3] = out.extent[3] = g.rest;
        rl<bf16, rows, D> rest;
        load(rest, in, at);
        store(out, rest, at);
    }

    kittens_device static tensor<bf16> from_column(tensor<bf16> t, int first) {
        t.data += first;
        return t;
    }
};

namespace {

template <typename Kernel, typename Angle>
void start(const heads& out, const heads& x, const void* cosine, const void* sine, std::int64_t cosine_stride,
           std::int64_t sine_stride, const problem& p, void* stream) {
    constexpr std::int64_t rows = Kernel::rows, lines = Kernel::lines;
    const int half = p.rotary_dim / 2, turned = p.interleaved ? p.rotary_dim : half;
    const auto tiles = [](std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; };
    // The rows are those that follow one another in memory, unless they leave most of a task's lanes idle.
    const auto filled = [&](std::int64_t extent, std::int64_t tile) {
        return double(extent) / double(tiles(extent, tile) * tile);
    };
    const double by_heads = filled(p.H, rows * lines), by_positions = filled(p.N, rows) * filled(p.H, lines);
    const bool head_rows = by_heads > (x.head_stride < x.row_stride ? 0.7 : 2.0) * by_positions;
    const std::int64_t depth = head_rows ? p.N : p.H, tensor_rows = head_rows ? p.H : p.N;
    const std::int64_t task_depth = head_rows ? 1 : lines, task_rows = head_rows ? rows * lines : rows;
    const auto rotated = [&](const heads& t) {
        return tensor<bf16>(static_cast<bf16*>(t.data), int(p.B), int(depth), int(tensor_rows), turned,
                            head_rows ? t.head_stride : t.row_stride, head_rows ? t.row_stride : t.head_stride,
                            t.batch_stride);
    };
    const auto angles = [&](const void* data, std::int64_t stride) {
        return table<Angle>(static_cast<Angle*>(const_cast<void*>(data)), 1, int(depth), int(tensor_rows), half,
                            head_rows ? 0 : stride, head_rows ? stride : 0, 0);
    };
    const std::int64_t along_rows = tiles(tensor_rows, task_rows), along_depth = tiles(depth, task_depth);
    // Divided first: the product of three sizes may be beyond 64 bits.
    if (along_rows * along_depth > (largest_size - Kernel::warps) / p.B)
        throw std::invalid_argument("x: got " + std::to_string(p.B) + " x " + std::to_string(p.H) + " x " +
                                    std::to_string(p.N) + " rows, more than the kernel can number");
    const int tasks = int(along_rows * along_depth * p.B);
    const typename Kernel::globals globals{rotated(x),
                                           rotated(out),
                                           angles(cosine, cosine_stride),
                                           angles(sine, sine_stride),
                                           half,
                                           p.rotary_dim,
                                           out.data != x.data ? p.D - p.rotary_dim : 0,
                                           p.conjugate,
                                           int(task_depth),
                                           int(task_rows),
                                           head_rows ? 0 : 1,
                                           head_rows ? int(rows) : 0,
                                           tasks,
                                           divisor(int(along_rows)),
                                           divisor(int(along_depth))};
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
