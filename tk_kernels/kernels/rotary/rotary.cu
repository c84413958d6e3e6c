// Rotary embedding: every row of every head is turned by the angles of its position.
//
// One pass without shared memory and without a loop. A warp takes a task of two lines of as many rows as its lanes hold
// 16 bytes of (4 rows of half of 128 entries), which turn by the same angles: four loads of 16 bytes a thread and two
// of the tables, which stay in their own type until they are used, so that few registers are enough for many warps.
// Half-split lines come with their partners, so that a lane holds both and nothing is exchanged; interleaved rows come
// as one line of twice the length, with half as many angles a run.
//
// The rows of a line are those that follow one another in memory: positions of a head where heads are far apart, and
// then a task is the same positions of two heads; heads of a position where those are closer, and then a task is 8
// heads of it, whose angles are one row of the tables. Neighbouring warps take neighbouring rows.
//
// Strides are the tensor's own: (B, H, N, D) and (B, N, H, D) are the same kernel. Entries beyond rotary_dim are
// copied, or left alone where the result replaces x.
//
// Problems: D 64 and 128, rotary_dim a multiple of 16, any B, H, N. Bytes at least: x in and out.
#include "rotary.h"

#include "kittens.cuh"

namespace tk::rotary {
using namespace kittens;

using tensor = gl<bf16, dynamic, dynamic, dynamic, dynamic>;
template <typename T> using angles_of = gl<T, 1, dynamic, dynamic, dynamic>;

template <int D, bool Interleaved, typename Angle> struct kernel {
    static constexpr int warps = 2, cluster_blocks = 1, blocks_per_sm = sizeof(Angle) == 4 ? 14 : 18;
    static constexpr int rows = 512 / D, lines = 2;  // of a line; of a task
    using line = rl<bf16, rows, Interleaved ? D : D / 2>;
    using angles = rl<Angle, rows, D / 2, Interleaved ? 4 : 8>;

    // Tensors of depth heads and a row a position, or of depth positions and a row a head; so are the tables, in which
    // every head has the same rows.
    struct globals {
        tensor in, out;  // the entries that are rotated; half-split, the first of each pair
        angles_of<Angle> cosine, sine;
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
        const auto in = columns_from(g.in, g.partner), out = columns_from(g.out, g.partner);
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
        rl<bf16, rows, D> rest;
        load(rest, columns_from(g.in, g.rest_first, g.rest), at);
        store(columns_from(g.out, g.rest_first, g.rest), rest, at);
    }
};

namespace {

template <int D, bool Interleaved, typename Angle> void start(const problem& p, void* stream) {
    using kernel = kernel<D, Interleaved, Angle>;
    constexpr int rows = kernel::rows, lines = kernel::lines;
    // The rows are those that follow one another in memory, unless they leave most of a task's lanes idle.
    const auto filled = [](int64_t extent, int tile) { return extent / double(divide_up(extent, tile) * tile); };
    const double by_heads = filled(p.H, rows * lines), by_positions = filled(p.N, rows) * filled(p.H, lines);
    const bool head_rows = by_heads > (p.x.head_stride < p.x.row_stride ? 0.7 : 2.0) * by_positions;
    const int64_t depth = head_rows ? p.N : p.H, tensor_rows = head_rows ? p.H : p.N;
    const int task_depth = head_rows ? 1 : lines, task_rows = head_rows ? rows * lines : rows;
    const auto rotated = [&](const heads& t) {
        const heads by_position{t.data, t.batch_stride, t.row_stride, t.head_stride};
        return tensor(head_rows ? by_position : t, p.B, depth, tensor_rows,
                      Interleaved ? p.rotary_dim : p.rotary_dim / 2);
    };
    const auto angles = [&](const table& t) {
        const heads place{const_cast<void*>(t.data), 0, head_rows ? t.stride : 0, head_rows ? 0 : t.stride};
        return angles_of<Angle>(place, 1, depth, tensor_rows, p.rotary_dim / 2);
    };
    const int64_t along_rows = divide_up(tensor_rows, task_rows), along_depth = divide_up(depth, task_depth);
    require_counts("rotary", p.B, {along_rows * along_depth + kernel::warps});
    const int tasks = int(along_rows * along_depth * p.B);
    kittens::launch<kernel>(
        {divide_up(tasks, kernel::warps), 0}, stream,
        {rotated(p.x), rotated(p.out), angles(p.cosine), angles(p.sine), p.rotary_dim / 2, p.rotary_dim,
         p.out.data != p.x.data ? D - p.rotary_dim : 0, p.conjugate, task_depth, task_rows, head_rows ? 0 : 1,
         head_rows ? rows : 0, tasks, divisor(int(along_rows)), divisor(int(along_depth))});
}

template <int D> void start_of(const problem& p, void* stream) {
    if (p.interleaved && p.table_float) start<D, true, float>(p, stream);
    else if (p.interleaved) start<D, true, bf16>(p, stream);
    else if (p.table_float) start<D, false, float>(p, stream);
    else start<D, false, bf16>(p, stream);
}

}  // namespace

void launch(const problem& p, void* stream) {
    if (p.D == 64) start_of<64>(p, stream);
    else start_of<128>(p, stream);
}

}  // namespace tk::rotary
