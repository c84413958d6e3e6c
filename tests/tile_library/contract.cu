// Calls each operation that a target gives, once: tk_kernels/include/kittens/target/CONTRACT.md lists them.
#include "kittens.cuh"

using namespace kittens;

using tile = st_bf<64, 64>;
using vec = sv_fl<64>;
using matrix = gl<bf16, 1, 1, dynamic, dynamic, tile>;
using numbers = gl<float, 1, 1, dynamic, dynamic, st_fl<64, 64>>;
using column = rt_fl<64, 64>::col_vec;
using row = rt_fl<64, 64>::row_vec;

static_assert(sizeof(tensor_map<tile>) > 0);

struct named {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int shared_bytes = limits::shared_bytes;
    struct globals {
        matrix x;
        numbers y;
        gl<int, 1, 1, dynamic, dynamic> table;
        counters done;
        task_queue queue;
        flags<2> ranks;
    };

    kittens_device static void scalars() {
        const float x =
            to_float(from_float<bf16>(1.f)) + to_float(from_float<half>(1.f)) + to_float(from_float<e4m3>(1));
        const float y = math::exp(x) + math::exp2(x) + math::log(x) + math::log2(x) + math::log1p(x) + math::sqrt(x);
        const float z = math::rsqrt(y) + math::reciprocal(y) + math::tanh(y) + math::abs(y);
        (void)(math::max(y, z) + math::min(y, z) + float(warpgroup_index() + warp_in_group() + cluster_rank()));
    }
    kittens_device static void registers(rt_fl<64, 64>& d, rt_bf<64, 64>& a) {
        column sums;
        row across;
        rt_bf<16, 16> corner_of, turned;
        rt<bf16, 64, 64, layout::col> other;
        rv<float, 64> plain, running;
        const auto add = [](auto x, auto y) { return x + y; };
        each([](int, int, auto& x) { x = 1.f; }, d);
        reduce_rows_partial(sums, d, add, false);
        reduce_cols_partial(across, d, add, false);
        reduce_finish(sums, add);
        each_with_col_vec([](int, int, float v, auto& x) { x += v; }, sums, d);
        each_with_row_vec([](int, int, float v, auto& x) { x += v; }, across, d);
        each_col_couple([](auto two) { two.first += two.second; }, d);
        part(corner_of, a, 0, 0);
        each_row_couple([](int, auto two) { two.first = two.second; }, corner_of);
        if (any(sums, [](float x) { return x > 0.f; })) settle(sums);
        convert_spread(plain, sums);
        cumulative_sum(running, plain);
        fill(d, value_at(running, 3) + reduce_all(plain, add, 0.f));
        rotate_rows<3>(turned, corner_of);
        rotate_cols<3>(corner_of, turned);
        multiply_elements(turned, corner_of, turned);
        transpose(corner_of, turned);
        place(a, corner_of, 1, 1);
        swap_layout(other, a);
        transpose_layout(a, unhoisted(other));
    }
    kittens_device static void memory(const globals& g, tile& t, st_fl<64, 64>& f, vec& v) {
        rt_bf<64, 64> a;
        rt_fl<64, 64> d;
        row across;
        const element_coord at = {};
        (void)element(t, 0, int(shared_offset<tile>(0, 0)));
        load_tile<warp_rows>(a, t, site{});
        store_tile<warp_rows>(t, a, site{});
        load_tile<warp_rows>(a, g.x, at, site{});
        store_tile<warp_rows>(g.x, a, at, site{});
        load_packed_tile<warp_rows>(d, g.y, coord{}, site{});
        store_packed_tile<warp_rows>(g.y, d, coord{}, site{});
        add_packed(g.y, d, coord{});
        load_vec(across, g.y, at, site{});
        store_vec(g.y, across, at, site{});
        store(v, across);
        load(across, v);
        load_pairs(a, g.x, at);
        load_column(across, g.y, at);
        integer_row entries(g.table, load_integer(g.table, at));
        entries.bring(0);
        const int first = entries.at(1) + entries.brought(2) + int(load_value(g.y, at));
        load_rows(a, g.x, [=](int i) { return i + first; });
        store_rows(g.x, a, [=](int i) { return i + first; });
        sv_bf<64>* halves = nullptr;
        load_rows(a, halves, 1);
        store_rows(&v, d, 1);
        store_pairs(g.y, d, at);
        store_elements(g.y, across, [](int i) { return i; });
        prefetch_tile<64, 64>(g.x, at);
        prefetch_row<64>(g.x, at);
        prefetch_column<64>(g.x, at);
        group<4>::load(t, g.x, at);
        group<4>::store(g.x, t, at);
        group<4>::copy_async(t, g.x, at);
        copy_commit();
        copy_wait();
        load_from(d, f, 0);
        sv_fl<64 * 64>* packed = nullptr;
        store_packed(*packed, d);
        rt_bf<16, 64> strip;
        rt_fl<16, 64>::col_vec rows;
        warpgroup::load(rows, v);
        warpgroup::store(v, rows);
        warpgroup::load_halves(strip, t);
        warpgroup::store_halves(t, strip);
        warpgroup::load_transposed(strip, t);
    }
    kittens_device static void lines(const globals& g, vec& v) {
        rl<float, 1, 64> x;
        load<reuse::once>(x, g.y, element_coord{});
        each_run([](int, int, float* run) { run[0] = to_floats<8>(run).value[1]; }, x);
        store_value(v, 0, sum(x, [](int, int, float e) { return e; }) + load_value(v, 1));
        store<reuse::once>(g.y, x, element_coord{});
    }
    kittens_device static void run(const globals& g) {
        wait_previous_kernel();
        start_next_kernel();
        shared_allocator memory_of;
        tile& t = *memory_of.allocate<tile>("t");
        auto& f = *memory_of.allocate<st_fl<64, 64>>("f");
        vec& v = *memory_of.allocate<vec>("v");
        auto& s = *memory_of.allocate<semaphore>("s");
        int& told = *memory_of.allocate<int>("told");
        if (warp_index() == 0) init(s, 1), fence_init();
        sync_start();
        prefetch_map<tile>(g.x);
        {
            loading announced(s, tile::bytes);
            start_load(t, g.x, corner<tile>(zero_beyond(g.x, coord{})), s, 0, site{});
        }
        arrive_at(s, 0);
        arrive(s);
        wait(s, 0);
        start_store<false>(g.x, t, element_coord{}, site{});
        start_store<true>(g.x, t, element_coord{}, site{});
        store_read_wait();
        store_wait();
        rt_bf<64, 64> a;
        rt_fl<64, 64> d;
        rt_fl<16, 64> quarter;
        multiply<false, false>(d, a, t, false, "multiply", site{});
        warpgroup::issue<false, false>(quarter, t, t, 0, "issue", site{});
        warpgroup::mma_wait(quarter);
        registers(d, a);
        memory(g, t, f, v);
        lines(g, v);
        scalars();
        sync_warp(), sync_block(), sync_cluster(), fence_async();
        sync_named(1, 4), arrive_named(2, 4), warpgroup::sync(3);
        increase_registers<64>(), decrease_registers<64>();
        claimed next = claim(&told, block_count());
        store_number(told, number_of(next) + load_number(told) + block_index());
        clear_counter(&told);
        signal(g.done[0], signal_and_count(g.done[0]) + int(ticks()));
        await(g.done[0], 1);
        retire(g.done);
        signal(g.ranks, 1, 0, epoch(g.ranks) + 1);
        await(g.ranks, 0, epoch(g.ranks) + 1);
        retire(g.ranks);
    }
};

void start(const named::globals& globals) {
    clear_counter_on(nullptr, stall_report());
    collect_launches(2);
    launch_of_rank<named>({1, named::shared_bytes}, nullptr, globals, 0);
    run_collected();
    const launch_shape shape{multiprocessors(), named::shared_bytes};
    if (resident_blocks<named>(shape) == 0 || multiprocessor_shared_bytes() < block_shared_bytes())
        throw std::runtime_error(stalled_counter());
    launch<named>(shape, nullptr, globals);
}
