// Whole programs beside the GEMM: the load-compute-store-finish pipeline, and attention, which needs nothing that the
// library has not. And the tile orders, as host functions.
#include "guarded.h"
#include "hedgehog/lcf_carry.cuh"
#include "linear_attention/decayed_states.cuh"

using namespace kittens;

namespace {

// Down each strip of columns: out[i] = the sum of in's tiles 0 .. i. Two consumers, 64 rows of a tile each.
struct running_sum : lcsf_defaults {
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

    kittens_device static bool get_task(task& t, const globals& g, int i) {
        t.column = block_index() + i * block_count();
        t.steps = (g.in.rows() + tile::rows - 1) / tile::rows;
        return t.column * tile::cols < g.in.cols();
    }
    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        load_async(in.x, g.in, coord{0, 0, step, t.column}, full);
    }
    template <typename Stream> kittens_device static void consume(Stream& s, const task& t, const globals&) {
        rt_fl<16, 64> x, sum;
        zero(sum);
        for (int step = 0; step < t.steps; step++) {
            warpgroup::load(x, subtile<64, 64>(s.take().x, warpgroup_index(), 0));
            s.release();
            add(sum, sum, x);
            warpgroup::store(subtile<64, 64>(s.ask().y, warpgroup_index(), 0), sum);
            s.hand_over();
        }
    }
    kittens_device static void store(output& out, const task& t, int step, const globals& g) {
        store_async(g.out, out.y, coord{0, 0, step, t.column});
    }
};

// The same with another division of labour: one warpgroup carries the sum, from a tile of the strip's own on, and hands
// over what was there before each step; another adds the step to it.
struct carried_sum {
    static constexpr int stages = 3, consumers = 2, consumer_registers = 232;
    using tile = st_bf<64, 64>;
    using sums = st_fl<64, 64>;
    using matrix = gl<bf16, 1, 1, dynamic, dynamic, tile>;
    using registers = rt_fl<16, 64>;
    struct globals {
        matrix in, begin, out;
    };
    struct input {
        tile x;
    };
    struct resident {
        tile begin;
    };
    struct workspace {
        sums* before;
        kittens_device explicit workspace(shared_allocator& memory) : before(memory.allocate<sums>("before")) {}
    };
    static constexpr int workspace_bytes = int(sizeof(sums));
    struct task {
        int column, first, end;
    };

    kittens_device static void prefetch(const globals& g) { prefetch_maps(g.in, g.begin); }
    kittens_device static bool get_task(task& t, const globals& g, int i) {
        t.column = block_index() + i * block_count();
        t.first = 0, t.end = divide_up(g.in.rows(), tile::rows);
        return t.column * tile::cols < g.in.cols();
    }
    kittens_device static void load_resident(resident& into, const task& t, semaphore& full, const globals& g) {
        load_async(into.begin, g.begin, coord{0, 0, 0, t.column}, full);
    }
    kittens_device static void load(input& into, const task& t, int step, semaphore& full, const globals& g) {
        load_async(into.x, g.in, coord{0, 0, step, t.column}, full);
    }
    template <typename Shared> kittens_device static void carry(Shared& shared, const globals& g) {
        typename Shared::walk s{shared};
        registers sum, x;
        task t;
        int copies = 0;
        for (int i = 0; get_task(t, g, i); i++) {
            s.begin(t);
            s.hold();
            warpgroup::load(sum, s.held().begin);
            s.release_held();
            for (int step = t.first; step < t.end; step++) {
                s.ask(copies++);
                warpgroup::store(*s.own().before, sum);
                s.hand_over();
                warpgroup::load(x, s.step(step).x);
                add(sum, sum, x);
                s.release_before(step);  // one late: the window of two steps that the ring has room for
            }
            s.release_before(t.end);
        }
    }
    template <typename Shared> kittens_device static void compute(Shared& shared, const globals& g) {
        typename Shared::walk s{shared};
        registers sum, x;
        task t;
        int copies = 0;
        for (int i = 0; get_task(t, g, i); i++) {
            s.begin(t);
            s.hold();
            s.release_held();
            for (int step = t.first; step < t.end; step++) {
                warpgroup::load(x, s.step(step).x);
                s.take_copy(copies++);
                warpgroup::load(sum, *s.own().before);
                s.release_copy();
                add(x, x, sum);
                warpgroup::store(g.out, x, element_coord{0, 0, step * tile::rows, t.column * tile::cols});
                s.release_before(step + 1);
            }
        }
    }
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
            const loading phase(done, (step == 0 ? 3 : 2) * tile::bytes);
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

EXPORT int run_carried_sum(void* in, void* begin, void* out, int rows, int cols, int blocks, char* message, int size) {
    return guarded(
        [&] {
            using matrix = carried_sum::matrix;
            using pipeline = lcf_carry<carried_sum>;
            const carried_sum::globals g{matrix(static_cast<bf16*>(in), 1, 1, rows, cols),
                                         matrix(static_cast<bf16*>(begin), 1, 1, 64, cols),
                                         matrix(static_cast<bf16*>(out), 1, 1, rows, cols)};
            launch<pipeline>({blocks, pipeline::shared_bytes}, nullptr, g);
        },
        message, size);
}

// States of 64 features and 128 values.
EXPORT int run_sum_states(void* k, void* kv, int sequences, int count, char* message, int size) {
    return guarded(
        [&] {
            const linear_states<64, 128> states{{static_cast<float*>(k), sequences, count, 1, 64},
                                                {static_cast<float*>(kv), sequences, count, 64, 128}};
            sum_states(states, nullptr);
        },
        message, size);
}

// Of states of 128 values x 64 keys: two units a head. `initial` may be null.
EXPORT int run_carry_states(void* initial, int values_first, void* states, void* totals, int batch, int heads,
                            int borders, char* message, int size) {
    return guarded(
        [&] {
            const int units = 2 * heads, rows = values_first ? 128 : 64, cols = values_first ? 64 : 128;
            carry_states<64>(batch * units, nullptr,
                             {{{static_cast<float*>(initial), batch, heads, rows, cols}, values_first != 0},
                              {static_cast<float*>(states), 1, batch * units * borders, 64, 64},
                              {static_cast<float*>(totals), 1, batch * units * borders, 1, 64},
                              head_units{divisor(2)},
                              divisor(units),
                              borders});
        },
        message, size);
}

// Segments of a sequence, as count * 1000000 + length * 1000 + the number that costs |count - cheapest| chooses.
EXPORT int segments_of(int steps, int wanted, int most, int cheapest) {
    const segmentation cut(steps, wanted);
    return cut.count * 1000000 + cut.length * 1000 +
           cheapest_segments(most, [=](int count) { return count < cheapest ? cheapest - count : count - cheapest; });
}

EXPORT int counts_fit(long long count, int room, char* message, int size) {
    return guarded([&] { require_counts("some_kernel", room, {1, count, 2}); }, message, size);
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
EXPORT int dividing_band_of(int rows, long long row_bytes) { return dividing_band(rows, row_bytes); }
