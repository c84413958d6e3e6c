// Programs of warps that copy for themselves (copy_async, copy_commit, copy_wait), each with one mistake, and the same
// programs without it. test_copies.py says what each must be told.
#include <cstdio>
#include <cstring>
#include <vector>

#include "kittens.cuh"

using namespace kittens;

namespace {

using tile = st_bf<64, 64>;
using strip = st_bf<16, 64>;
using matrix = gl<bf16, 1, 1, dynamic, dynamic, tile, strip>;
struct globals_t {
    matrix in;
    gl<float, 1, 1, dynamic, dynamic> out;
};
using block = group<4>;
constexpr int steps = 5;  // tiles, one below the other

struct program {
    using globals = globals_t;
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1;
};

// --- one buffer of keys and one of values: each arrives while the other is used -------------------------------------
enum class slip {
    none,
    no_keys_wait,
    no_keys_barrier,
    keys_barrier_before_wait,
    no_values_wait,
    no_values_barrier,
    values_too_early,
    keys_too_early,
    no_commit,
    queries_not_committed,
    values_left_pending,
    next_keys_not_awaited,
    a_warp_does_not_copy,
    results_over_queries,
    column_inside_a_unit
};

template <slip Slip> struct single : program {
    static void run(const globals_t& g) {
        shared_allocator memory;
        strip& q = memory.allocate<strip>("q", 4)[warp_index()];
        tile& k = *memory.allocate<tile>("k");
        tile& v = *memory.allocate<tile>("v");
        rt_fl<16, 64> scores, sum;
        rt_bf<16, 64> weights;
        zero(sum);
        if (Slip != slip::queries_not_committed) group<1>::copy_async(q, g.in, coord{0, 0, warp_index(), 0});
        block::copy_async(k, g.in, element_coord{0, 0, 0, Slip == slip::column_inside_a_unit ? 4 : 0});
        if (Slip != slip::no_commit) copy_commit();
        if (Slip == slip::queries_not_committed) group<1>::copy_async(q, g.in, coord{0, 0, warp_index(), 0});
        if (Slip == slip::results_over_queries) store(q, sum);
        for (int step = 0; step < steps; step++) {
            if (Slip == slip::values_too_early) block::copy_async(v, g.in, coord{0, 0, step, 0});
            if (Slip == slip::keys_barrier_before_wait) sync_block();
            if (Slip != slip::no_keys_wait && (Slip != slip::next_keys_not_awaited || step == 0)) copy_wait();
            if (Slip != slip::no_keys_barrier && Slip != slip::keys_barrier_before_wait) sync_block();
            if (Slip != slip::values_too_early) {
                if (Slip != slip::a_warp_does_not_copy || warp_index() != 2)
                    block::copy_async(v, g.in, coord{0, 0, step, 0});
            }
            copy_commit();
            mm_ABt(scores, q, k);
            if (Slip == slip::keys_too_early && step + 1 < steps) {
                block::copy_async(k, g.in, coord{0, 0, step + 1, 0});
                copy_commit();
            }
            if (Slip == slip::values_left_pending) copy_wait<1>();
            else if (Slip == slip::keys_too_early) copy_wait<1>();
            else if (Slip != slip::no_values_wait) copy_wait();
            if (Slip != slip::no_values_barrier) sync_block();
            if (Slip != slip::keys_too_early && step + 1 < steps) block::copy_async(k, g.in, coord{0, 0, step + 1, 0});
            copy_commit();
            copy(weights, scores);
            mma_AB(sum, weights, v);
        }
        copy_wait();
        store(g.out, sum, coord{0, 0, warp_index(), 0});
    }
};

// --- a ring of three stages, which two copies ahead fill ------------------------------------------------------------
enum class lapse { none, pending_too_many, no_barrier, filled_too_early, last_groups_missing, wrong_stage, ends_early };

template <lapse Lapse> struct ring : program {
    static constexpr int stages = 3;

    static void run(const globals_t& g) {
        shared_allocator memory;
        tile* stage = memory.allocate<tile>("stage", stages);
        rt_fl<64, 64> sum;
        zero(sum);
        for (int step = 0; step < stages - 1; step++) fill(stage[step], g, step);
        for (int step = 0; step < steps; step++) {
            const int ahead = step + (Lapse == lapse::filled_too_early ? stages : stages - 1);
            if (Lapse == lapse::filled_too_early) fill(stage[ahead % stages], g, ahead);
            if (Lapse == lapse::pending_too_many) copy_wait<stages - 1>();
            else copy_wait<Lapse == lapse::filled_too_early ? stages - 1 : stages - 2>();
            if (Lapse != lapse::no_barrier) sync_block();
            if (Lapse == lapse::last_groups_missing) {
                if (ahead < steps) fill(stage[ahead % stages], g, ahead);
            } else if (Lapse != lapse::filled_too_early) {
                fill(stage[ahead % stages], g, ahead);
            }
            const tile& now = stage[(step + (Lapse == lapse::wrong_stage)) % stages];
            mma_AB(sum, now, now);
        }
        if (Lapse == lapse::ends_early) fill(stage[0], g, 0);
        if (Lapse != lapse::ends_early) copy_wait();
        if (warp_index() == 0) store(g.out, sum, coord{0, 0, 0, 0});
    }
    // A group for each step, an empty one where there is nothing left to copy.
    static void fill(tile& to, const globals_t& g, int step) {
        if (step < steps) block::copy_async(to, g.in, coord{0, 0, step, 0});
        copy_commit();
    }
};

// --- copies that others of the library's operations touch -----------------------------------------------------------
enum class touch { none, load_too_early, store_too_early, no_fence };

template <touch Touch> struct beside : program {
    static void run(const globals_t& g) {
        shared_allocator memory;
        strip& own = memory.allocate<strip>("own", 4)[warp_index()];
        rt_bf<16, 64> x;
        group<1>::copy_async(own, g.in, coord{0, 0, warp_index(), 0});
        copy_commit();
        if (Touch == touch::store_too_early) {
            zero(x);
            store(own, x);
        }
        if (Touch != touch::load_too_early) copy_wait();
        load(x, own);
        copy_wait();
        add(x, x, x);
        store(own, x);
        if (Touch != touch::no_fence) fence_async();
        store_async(g.in, own, coord{0, 0, 20 + warp_index(), 0});
        store_read_wait();
    }
};

using start = void (*)(const globals_t&);
template <typename Kernel> void start_of(const globals_t& g) { launch<Kernel>({1, limits::shared_bytes}, nullptr, g); }
struct entry {
    const char* name;
    start run;
};
#define SINGLE(name) {"single_" #name, start_of<single<slip::name>>}
#define RING(name) {"ring_" #name, start_of<ring<lapse::name>>}
#define BESIDE(name) {"beside_" #name, start_of<beside<touch::name>>}
const entry programs[] = {
    SINGLE(none),
    SINGLE(no_keys_wait),
    SINGLE(no_keys_barrier),
    SINGLE(keys_barrier_before_wait),
    SINGLE(no_values_wait),
    SINGLE(no_values_barrier),
    SINGLE(values_too_early),
    SINGLE(keys_too_early),
    SINGLE(no_commit),
    SINGLE(queries_not_committed),
    SINGLE(values_left_pending),
    SINGLE(next_keys_not_awaited),
    SINGLE(a_warp_does_not_copy),
    SINGLE(results_over_queries),
    SINGLE(column_inside_a_unit),
    RING(none),
    RING(pending_too_many),
    RING(no_barrier),
    RING(filled_too_early),
    RING(last_groups_missing),
    RING(wrong_stage),
    RING(ends_early),
    BESIDE(none),
    BESIDE(load_too_early),
    BESIDE(store_too_early),
    BESIDE(no_fence),
};

}  // namespace

// Runs a program with a seed on `in`, (rows, 64) bf16 of which `rows` are there and the last may lie in a tile's tail.
// 0: it ended, and `out` (64, 64) is its result; 1: `message` says what was found; 2: there is no such program.
extern "C" __attribute__((visibility("default"))) int run_program(const char* name, unsigned long long seed, void* in,
                                                                  int rows, float* out, char* message, int size) {
    cpu::forced_options = cpu::options{seed, 1};
    for (const entry& e : programs) {
        if (std::strcmp(e.name, name) != 0) continue;
        try {
            e.run({matrix(static_cast<bf16*>(in), 1, 1, rows, 64), {out, 1, 1, 64, 64}});
            return 0;
        } catch (const kittens::error& found) {
            std::snprintf(message, size, "%s", found.what());
            return 1;
        }
    }
    return 2;
}
