// Whole programs beside the GEMM: the load-compute-store-finish pipeline, and attention, which needs nothing that the
// library has not. And the tile orders, as host functions.
#include <cstdio>
#include <stdexcept>

#include "kittens.cuh"

using namespace kittens;

namespace {

// Down each strip of columns: out[i] = the sum of in's tiles 0 .. i. Two consumers, 64 rows of a tile each.
struct running_sum {
    static constexpr int stages = 3, output_stages = 2, consumers = 2, consumer_registers = 232;
    using tile = st_bf<128, 64>;
    using matrix = gl<bf16, 1, 1, dynamic, dynamic, tile>;
    struct globals {
        matrix in, out;
    };
    struct input {
        tile x;
    };
    struct output {
        tile y;
    };
    struct task {
        int column, steps;
    };
    using state = rt_fl<16, 64>;

    kittens_device static bool get_task(task& t, const globals& g, int i) {
        t.column = block_index() + i * block_count();
        t.steps = (g.in.rows() + tile::rows - 1) / tile::rows;
        return t.column * tile::cols < g.in.cols();
    }
    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        load_async(in.x, g.in, coord{0, 0, step, t.column}, full);
    }
    kittens_device static void start(state& sum, const task&, const globals&) { zero(sum); }
    kittens_device static void compute(state& sum, output& out, input& in, const task&, int) {
        rt_fl<16, 64> x;
        warpgroup::load(x, subtile<64, 64>(in.x, warpgroup_index(), 0));
        add(sum, sum, x);
        warpgroup::store(subtile<64, 64>(out.y, warpgroup_index(), 0), sum);
    }
    kittens_device static void store(output& out, const task& t, int step, const globals& g) {
        store_async(g.out, out.y, coord{0, 0, step, t.column});
    }
    kittens_device static void finish(state&, const task&, const globals&) {}
};

// softmax(q k^T / 8 + causal mask) v for 64 queries a block, 64 keys a step, 64 columns; one warpgroup.
struct attention {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1, dim = 64;
    using tile = st_bf<64, dim>;
    using heads = gl<bf16, dynamic, dynamic, dynamic, dim, tile>;
    struct globals {
        heads q, k, v, out;
        int causal;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile& q = *memory.allocate<tile>("q");
        tile* k = memory.allocate<tile>("k", 2);
        tile* v = memory.allocate<tile>("v", 2);
        semaphore* full = memory.allocate<semaphore>("full", 2);
        const int blocks = (g.q.rows() + 63) / 64, head = block_index() / blocks, first = block_index() % blocks;
        const int batch = head / g.q.depth(), depth = head % g.q.depth();
        const int steps = g.causal ? first + 1 : (g.k.rows() + 63) / 64;
        if (warp_index() == 0) init(full, 2, 1);
        sync_start();
        auto fetch = [&](int step) {
            semaphore& done = full[step % 2];
            expect_bytes(done, (step == 0 ? 3 : 2) * tile::bytes);
            if (step == 0) load_async(q, g.q, coord{batch, depth, first, 0}, done);
            load_async(k[step % 2], g.k, coord{batch, depth, step, 0}, done);
            load_async(v[step % 2], g.v, coord{batch, depth, step, 0}, done);
        };
        if (warp_index() == 0) fetch(0);

        rt_fl<16, 64> scores;
        rt_fl<16, dim> sum_v;
        rt_bf<16, 64> weights;
        rt_fl<16, 64>::col_vec most, old_most, scale, total;
        fill(most, -1e30f);
        zero(total);
        zero(sum_v);
        for (int step = 0; step < steps; step++) {
            if (warp_index() == 0 && step + 1 < steps) fetch(step + 1);
            wait(full[step % 2], step / 2 % 2);
            warpgroup::mm_ABt(scores, q, k[step % 2]);
            warpgroup::mma_wait(scores);
            mul(scores, scores, 0.125f * 1.44269504f);
            const int keys = g.k.rows() - 64 * step, diagonal = 64 * (first - step);
            mask(
                scores, scores,
                [=](int row, int col) { return col < keys && (!g.causal || col <= warpgroup::row(row) + diagonal); },
                -INFINITY);
            copy(old_most, most);
            row_max(most, scores, old_most);
            sub_row(scores, scores, most);
            exp2(scores, scores);
            sub(scale, old_most, most);
            exp2(scale, scale);
            mul(total, total, scale);
            row_sum_partial(total, scores);
            mul_row(sum_v, sum_v, scale);
            copy(weights, scores);
            warpgroup::mma_AB(sum_v, weights, v[step % 2]);
            warpgroup::mma_wait(sum_v);
            sync_block();  // all have read this step's buffers
        }
        row_sum_finish(total);
        div_row(sum_v, sum_v, total);
        warpgroup::store(q, sum_v);
        fence_async();
        warpgroup::sync(1);
        if (warp_index() == 0) {
            store_async(g.out, q, coord{batch, depth, first, 0});
            store_read_wait();
        }
    }
};

template <typename F> int guarded(F run, char* message, int size) {
    try {
        run();
        return 0;
    } catch (const std::exception& error) {
        std::snprintf(message, size, "%s", error.what());
        return 1;
    }
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int run_running_sum(void* in, void* out, int rows, int cols, int blocks, char* message, int size) {
    return guarded(
        [&] {
            using matrix = running_sum::matrix;
            using pipeline = lcsf<running_sum>;
            const running_sum::globals g{matrix(static_cast<bf16*>(in), 1, 1, rows, cols),
                                         matrix(static_cast<bf16*>(out), 1, 1, rows, cols)};
            launch<pipeline>({blocks, pipeline::shared_bytes}, nullptr, g);
        },
        message, size);
}

EXPORT int run_attention(void* q, void* k, void* v, void* out, int batch, int depth, int queries, int keys, int causal,
                         char* message, int size) {
    return guarded(
        [&] {
            using heads = attention::heads;
            const auto tensor = [&](void* data, int rows) {
                return heads(static_cast<bf16*>(data), batch, depth, rows, attention::dim);
            };
            const attention::globals g{tensor(q, queries), tensor(k, keys), tensor(v, keys), tensor(out, queries),
                                       causal};
            const int shared_bytes = 5 * int(sizeof(attention::tile)) + 2 * int(sizeof(semaphore));
            launch<attention>({batch * depth * ((queries + 63) / 64), shared_bytes}, nullptr, g);
        },
        message, size);
}

// Tile `index` of a rows x cols grid, as row * cols + col: in bands, or, where band is 0, along the Hilbert curve.
EXPORT int tile_of(int index, int rows, int cols, int band) {
    const tile_index at = band > 0 ? tile_bands(rows, cols, band).at(index) : hilbert(index, rows, cols);
    return at.row * cols + at.col;
}
