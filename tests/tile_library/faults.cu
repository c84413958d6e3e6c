// Small programs for the cpu target, each with one mistake, and the same programs without it. test_faults.py says what
// each must be told. A program is a kernel type; its name in the table below is what Python calls.
#include <cstdio>
#include <cstring>
#include <vector>

#include "kittens.cuh"

using namespace kittens;

namespace {

using tile = st_bf<64, 64>;
using matrix = gl<bf16, 1, 1, dynamic, dynamic, tile>;
struct globals_t {
    matrix in, out;
    gl<float, 1, 1, dynamic, dynamic> sums;
    int* counter;
};

template <int Warps = 4, int Blocks = 1> struct program {
    using globals = globals_t;
    static constexpr int warps = Warps, cluster_blocks = Blocks, blocks = Blocks, blocks_per_sm = 1;
    static constexpr bool claims = false;
    static constexpr int counted = 0;  // what the counter holds at the launch
};

// Two tiles and two semaphores, initialised.
struct setup {
    shared_allocator memory;
    tile* tiles = memory.allocate<tile>("tiles", 2);
    semaphore* full = memory.allocate<semaphore>("full", 2);
    semaphore* empty = memory.allocate<semaphore>("empty", 2);

    template <int Blocks = 1> void start(int full_arrivals = 1, int empty_arrivals = 4) {
        if (warp_index() == 0) {
            init(full, 2, full_arrivals);
            init(empty, 2, empty_arrivals);
        }
        sync_start<Blocks>();
    }
    void load_tile(int stage, coord at, const matrix& in, int mask = 0) {
        expect_bytes(full[stage], tile::bytes);
        load_async(tiles[stage], in, at, full[stage], mask);
    }
};

using quarter = rt_bf<16, 64>;
using accumulator = rt_fl<16, 64>;

// --- load, multiply, store: a ring of one stage -----------------------------------------------------------------
enum class slip { none, no_full_wait, early_reload, no_mma_wait, no_release_wait, wrong_parity, stuck_parity };

template <slip Slip> struct ring : program<8> {
    static void run(const globals_t& g) {
        setup s;
        s.start(1, 4);
        if (warp_index() == 4)
            for (int step = 0; step < 4; step++) {
                if (Slip != slip::no_release_wait) wait(s.empty[0], 1 - step % 2);
                s.load_tile(0, coord{0, 0, 0, step % 2}, g.in);
            }
        if (warpgroup_index() == 0) {
            accumulator sum;
            zero(sum);
            for (int step = 0; step < 4; step++) {
                if (Slip != slip::no_full_wait)
                    wait(s.full[0], Slip == slip::wrong_parity   ? 1 - step % 2
                                    : Slip == slip::stuck_parity ? 0
                                                                 : step % 2);
                warpgroup::mma_AB(sum, s.tiles[0], s.tiles[0]);
                if (Slip == slip::early_reload) arrive(s.empty[0]);
                warpgroup::mma_wait(sum);
                if (Slip != slip::early_reload) arrive(s.empty[0]);
            }
            warpgroup::store(g.out, sum, element_coord{});
        }
    }
};

// --- accumulators in flight --------------------------------------------------------------------------------------
enum class touch { none, map, store, scope, at_end, operand, alone, apart };

template <touch Touch> struct flight : program<> {
    static void run(const globals_t& g) {
        setup s;
        s.start();
        if (warp_index() == 0) s.load_tile(0, coord{}, g.in);
        wait(s.full[0], 0);
        accumulator sum;
        quarter a;
        warpgroup::load(a, s.tiles[0]);
        if (Touch == touch::scope) {
            accumulator inner;
            warpgroup::mm_AB(inner, s.tiles[0], s.tiles[0]);
        }
        if (Touch == touch::alone && warp_index() == 2) return;
        if (Touch == touch::apart && warp_index() == 2) warpgroup::mm_ABt(sum, a, s.tiles[0]);
        else warpgroup::mm_AB(sum, a, s.tiles[0]);
        if (Touch == touch::map) add(sum, sum, 1.f);
        if (Touch == touch::store) warpgroup::store(g.out, sum, element_coord{});
        if (Touch == touch::operand) zero(a);
        if (Touch == touch::at_end) {
            sync_block();
            std::vector<accumulator>* kept = new std::vector<accumulator>(1);  // outlives the warp
            warpgroup::mma_wait();
            warpgroup::mm_AB((*kept)[0], s.tiles[0], s.tiles[0]);
            return;
        }
        warpgroup::mma_wait(sum);
        warpgroup::store(g.out, sum, element_coord{});
    }
};

// --- ordinary stores and the copy engine -------------------------------------------------------------------------
enum class output { none, no_fence, no_barrier, no_read_wait, no_last_wait, no_reuse_barrier };

template <output Slip> struct epilogue : program<> {
    static void run(const globals_t& g) {
        setup s;
        quarter a;
        for (int step = 0; step < 3; step++) {
            fill(a, float(step));
            if (step > 0) {
                if (Slip != output::no_read_wait && warp_index() == 0) store_read_wait();
                if (Slip != output::no_reuse_barrier) warpgroup::sync(1);
            }
            warpgroup::store(s.tiles[0], a);
            if (Slip != output::no_fence) fence_async();
            if (Slip != output::no_barrier) warpgroup::sync(1);
            if (warp_index() == 0) store_async(g.out, s.tiles[0], coord{});
        }
        if (Slip != output::no_last_wait && warp_index() == 0) store_wait();
    }
};

// --- between warps -----------------------------------------------------------------------------------------------
template <bool Barrier> struct hand_over : program<2> {
    static void run(const globals_t& g) {
        setup s;
        rt_bf<64, 64> a;
        zero(a);
        if (warp_index() == 0) store(s.tiles[1], a);
        if (Barrier) sync_block();
        if (warp_index() == 1) {
            load(a, s.tiles[1]);
            store(g.out, a, coord{});
        }
    }
};

// --- semaphores --------------------------------------------------------------------------------------------------
enum class misuse {
    none,
    uninitialised,
    no_start,
    twice,
    too_many,
    missing,
    bytes_too_many,
    bytes_too_few,
    bytes_of_one,
    overtaken,
    never_waited,
    negative_bytes,
    parity
};

template <misuse Misuse> struct counting : program<4> {
    static void run(const globals_t& g) {
        setup s;
        if (Misuse == misuse::no_start) {
            if (warp_index() == 0) init(s.full, 2, 1);
            sync_named(1, 4);  // orders the warps, but is no fence for the copy engine
            if (warp_index() == 1) s.load_tile(0, coord{}, g.in);
            return;
        }
        if (Misuse != misuse::uninitialised) s.start(1, 3);
        if (Misuse == misuse::twice && warp_index() == 1) init(s.full[1], 1);
        if (warp_index() == 0) {
            if (Misuse == misuse::negative_bytes) expect_bytes(s.full[0], -1);
            if (Misuse == misuse::too_many) {
                expect_bytes(s.full[0], tile::bytes);
                arrive(s.full[0]);
            }
            if (Misuse == misuse::bytes_of_one)
                for (int i = 0; i < 2; i++) load_async(s.tiles[i], g.in, coord{}, s.full[0]);
            expect_bytes(s.full[0], Misuse == misuse::bytes_too_many  ? 2 * tile::bytes
                                    : Misuse == misuse::bytes_too_few ? tile::bytes / 2
                                                                      : tile::bytes);
            if (Misuse != misuse::bytes_of_one) load_async(s.tiles[0], g.in, coord{}, s.full[0]);
            if (Misuse == misuse::bytes_too_few) load_async(s.tiles[1], g.in, coord{}, s.full[0]);
            if (Misuse == misuse::never_waited) return;
            wait(s.empty[0], Misuse == misuse::parity ? 2 : 0);
            if (Misuse == misuse::overtaken) {
                arrive(s.full[1]);
                arrive(s.full[1]);
            }
        } else {
            if (Misuse == misuse::never_waited) return;
            wait(s.full[0], 0);
            if (Misuse == misuse::missing && warp_index() == 2) return;
            arrive(s.empty[0]);
            if (Misuse == misuse::overtaken) wait(s.full[1], 0);
        }
    }
};

// --- barriers ----------------------------------------------------------------------------------------------------
enum class meeting { none, absent, disagree, twice, bad_id };

template <meeting M> struct barriers : program<4> {
    static void run(const globals_t&) {
        if (M == meeting::absent && warp_index() == 3) return;
        if (M == meeting::disagree) sync_named(2, warp_index() == 3 ? 3 : 4);
        else if (M == meeting::twice) {
            arrive_named(2, 4);
            arrive_named(2, 4);
        } else sync_named(M == meeting::bad_id ? 16 : 2, 4);
        sync_block();
    }
};

// --- memory ------------------------------------------------------------------------------------------------------
enum class place { none, unwritten, negative, outside, too_large, disagree, not_shared, registers };

template <place P> struct memory : program<1> {
    static void run(const globals_t& g) {
        setup s;
        if (P == place::too_large) s.memory.allocate<tile>("surplus", 28);
        s.start();
        rt_bf<64, 64> a;
        fill(a, 1.f);
        static tile elsewhere;
        if (P == place::not_shared) store(elsewhere, a);
        if (P == place::outside) store(s.tiles[2], a);
        if (P != place::unwritten) store(s.tiles[0], a);
        load(a, s.tiles[0]);
        if (P == place::negative) store(g.out, a, coord{0, 0, 0, -1});
        store(g.out, a, coord{});
    }
};
struct disagreement : program<2> {
    static void run(const globals_t&) {
        shared_allocator memory;
        memory.allocate<tile>(warp_index() == 0 ? "left" : "right", 1);
    }
};
struct negative_load : program<1> {
    static void run(const globals_t& g) {
        setup s;
        s.start();
        s.load_tile(0, coord{0, 0, -1, 0}, g.in);
        wait(s.full[0], 0);
    }
};

// A tensor of 61 columns in rows of 64: the store reaches the end inside a 16-byte unit.
struct ragged_end : program<1> {
    static void run(const globals_t& g) {
        setup s;
        s.start();
        s.load_tile(0, coord{}, g.in);
        wait(s.full[0], 0);
        const matrix ragged(g.out.data, 1, 1, 64, 61, 64, 64 * 64, 64 * 64);
        store_async(ragged, s.tiles[0], coord{});
        store_wait();
    }
};

// --- clusters ----------------------------------------------------------------------------------------------------
enum class neighbour { none, early_exit, early_exit_arrival, mask, rank };

template <neighbour N> struct clusters : program<1, 2> {
    static void run(const globals_t& g) {
        setup s;
        s.start<2>(1, 2);
        if (N == neighbour::early_exit) {
            if (cluster_rank() == 0) {
                expect_bytes(s.full[0], tile::bytes);
                load_async(s.tiles[0], g.in, coord{}, s.full[0], 3);
                wait(s.full[0], 0);
            } else {
                expect_bytes(s.full[0], tile::bytes);
            }
            return;
        }
        const int mask = N == neighbour::mask ? 7 : 3;
        expect_bytes(s.full[0], tile::bytes);
        if (cluster_rank() == 0) load_async(s.tiles[0], g.in, coord{}, s.full[0], mask);
        wait(s.full[0], 0);
        rt_bf<64, 64> a;
        load(a, s.tiles[0]);
        for (int rank = 0; rank < 2; rank++) arrive_at(s.empty[0], N == neighbour::rank ? rank + 1 : rank);
        if (N == neighbour::early_exit_arrival) return;
        if (cluster_rank() == 0) {  // every block's buffer is free: it may be loaded again
            wait(s.empty[0], 0);
            expect_bytes(s.full[0], tile::bytes);
            load_async(s.tiles[0], g.in, coord{}, s.full[0], 3);
        } else {
            expect_bytes(s.full[0], tile::bytes);
        }
        wait(s.full[0], 1);
        load(a, s.tiles[0]);
        store(g.out, a, coord{0, 0, 0, cluster_rank()});
        sync_cluster();
    }
};

// --- a neighbour's shared memory -----------------------------------------------------------------------------------
enum class reading { none, unsynced, early_exit, overwritten, rank };

template <reading R> struct readings : program<1, 2> {
    static void run(const globals_t& g) {
        shared_allocator memory;
        using sums_tile = st_fl<16, 64>;
        auto& sums = *memory.allocate<sums_tile>("sums");
        rt_fl<16, 64> x;
        fill(x, 1.f);
        store(sums, x);
        if (R != reading::unsynced) sync_cluster();
        const int other = 1 - cluster_rank();
        load_from(x, sums, R == reading::rank ? other + 1 : other);
        if (R == reading::early_exit) return;
        if (R == reading::overwritten) store(sums, x);
        sync_cluster();
        store(g.out, x, coord{0, 0, 0, cluster_rank()});
    }
};

// --- between clusters ----------------------------------------------------------------------------------------------
enum class target { none, same, added, mixed };

template <target Target> struct grid : program<1> {
    static constexpr int blocks = 2;
    static void run(const globals_t& g) {
        setup s;
        rt_bf<64, 64> a;
        fill(a, 1.f);
        store(s.tiles[0], a);
        fence_async();
        const coord to{0, 0, 0, Target == target::none ? block_index() : 0};
        if (Target == target::added || (Target == target::mixed && block_index() == 0))
            store_add_async(g.out, s.tiles[0], to);
        else store_async(g.out, s.tiles[0], to);
        store_wait();
    }
};

// Blocks that add packed tiles to the same memory, which is right; one that reaches past the columns; and one that is
// stored without a fence.
enum class adding { right, past, unfenced };

template <adding How> struct adds : program<1> {
    static constexpr int blocks = 2;
    static void run(const globals_t& g) {
        shared_allocator memory;
        auto& packed = *memory.allocate<sv_fl<16 * 16>>("packed");
        rt_fl<16, 16> a;
        fill(a, 1.f);
        store_packed(packed, a);
        if (How != adding::unfenced) fence_async();
        store_add_async(g.sums, packed, coord{0, 0, 0, How == adding::past ? 1 : 0});
        store_read_wait();
    }
};

// The same from registers: blocks that add, one that reaches past the columns, and one that writes where others add.
enum class packing { added, added_past, stored_past, mixed };

template <packing How> struct packs : program<1> {
    static constexpr int blocks = 2;
    static void run(const globals_t& g) {
        constexpr bool past = How == packing::added_past || How == packing::stored_past;
        rt_fl<16, past ? 32 : 16> a;
        fill(a, 1.f);
        if (How == packing::stored_past || (How == packing::mixed && block_index() == 0))
            store_packed(g.sums, a, coord{});
        else add_packed(g.sums, a, coord{});
    }
};

// Two elements at a time: inside the tensor's columns, past them, and from an odd column on.
enum class pairing { right, past, odd };

template <pairing How> struct pairs : program<1> {
    static void run(const globals_t& g) {
        rt_fl<16, 64> a;
        fill(a, 1.f);
        store_pairs(g.sums, a, element_coord{0, 0, 56, How == pairing::right ? 192 : How == pairing::past ? 208 : 63});
    }
};

// --- between kernels: the later one starts early -------------------------------------------------------------------
// Writes the output with the copy engine and the sums with ordinary stores.
struct earlier_kernel : program<1> {
    static constexpr int blocks = 2;
    static void run(const globals_t& g) {
        start_next_kernel();
        shared_allocator memory;
        tile& out = *memory.allocate<tile>("out");
        rt_bf<64, 64> a;
        rt_fl<64, 64> sums;
        fill(a, 1.f), fill(sums, 1.f);
        store(out, a);
        fence_async();
        store_async(g.out, out, coord{0, 0, 0, block_index()});
        store(g.sums, sums, coord{0, 0, 0, block_index()});
        store_read_wait();
    }
};
// Between the two, in chains of three: neither reads nor writes what the others do.
struct middle_kernel : program<1> {
    static constexpr int blocks = 1;
    static constexpr bool starts_early = true;
    static void run(const globals_t&) {
        start_next_kernel();
        wait_previous_kernel();
    }
};

enum class overtaking { none, announced, load, plain_load, other_warp, one_block, store, plain_store, add, never };

// A loader brings an operand that no kernel wrote, then what the earlier one did; four warps go on from there.
template <overtaking How> struct later_kernel : program<5> {
    static constexpr int blocks = 2;
    static constexpr bool starts_early = true;
    static void run(const globals_t& g) {
        setup s;
        s.start();
        rt_fl<16, 64> sums;
        const element_coord own{0, 0, 16 * warp_in_group(), 64 * block_index()};
        if (warp_index() == 4) {
            s.load_tile(0, coord{0, 0, 0, block_index()}, g.in);
            if (How == overtaking::load) s.load_tile(1, coord{0, 0, 0, block_index()}, g.out);
            if (How == overtaking::announced) expect_bytes(s.full[1], tile::bytes);
            if (How != overtaking::never && (How != overtaking::one_block || block_index() == 1))
                wait_previous_kernel();
            if (How == overtaking::announced) load_async(s.tiles[1], g.out, coord{0, 0, 0, block_index()}, s.full[1]);
            else if (How != overtaking::load && How != overtaking::never)
                s.load_tile(1, coord{0, 0, 0, block_index()}, g.out);
            return;
        }
        wait(s.full[0], 0);
        if (How == overtaking::never) return;
        if (How == overtaking::plain_load || How == overtaking::other_warp) load(sums, g.sums, own);
        if (How == overtaking::plain_store) store(g.out, sums, own);
        if (How == overtaking::store) store_async(g.out, s.tiles[0], coord{0, 0, 0, block_index()});
        if (How == overtaking::add) store_add_async(g.out, s.tiles[0], coord{0, 0, 0, block_index()});
        if (How == overtaking::other_warp && warp_index() == 0) wait_previous_kernel();
        wait(s.full[1], 0);
        load(sums, g.sums, own);
        store(g.out, sums, own);
        store_read_wait();
    }
};

// Kernels launched in turn.
template <typename... Kernels> struct in_turn {
    static void start(const globals_t& g) {
        (launch<Kernels>({Kernels::blocks, limits::shared_bytes}, nullptr, g), ...);
    }
};
template <overtaking How> using overtaken = in_turn<earlier_kernel, later_kernel<How>>;
template <overtaking How> using overtaken_by_two = in_turn<earlier_kernel, middle_kernel, later_kernel<How>>;
// The middle kernel begins once all before it have ended, and is all that the last one may overtake.
struct late_middle_kernel : middle_kernel {
    static constexpr bool starts_early = false;
};
struct early_reader : program<1> {
    static constexpr int blocks = 1;
    static constexpr bool starts_early = true;
    static void run(const globals_t& g) {
        rt_fl<16, 64> sums;
        load(sums, g.sums, element_coord{});
        wait_previous_kernel();
    }
};

// --- a queue of tasks: strips of the sums, which blocks take from a counter; one warp tells the others -------------
enum class queueing {
    none,
    not_cleared,
    cleared_inside,
    cleared_too_early,
    blocks_in_turn,
    stops_early,
    dropped,
    asked_twice,
    not_told,
    told_too_early,
    not_released
};

template <queueing Slip> struct queue : program<8> {
    static constexpr int blocks = 3, tasks = 12;
    static constexpr bool claims = Slip != queueing::blocks_in_turn;
    static constexpr int counted = Slip == queueing::not_cleared ? 5 : 0;
    using feed = task_feed<>;

    static void run(const globals_t& g) {
        shared_allocator memory;
        feed told;
        told.allocate(memory);
        const bool leads = warp_index() == 4;
        if (leads) told.init(4);
        start_pipeline<8, 1>(leads);
        const task_queue queue{tasks, g.counter};
        if (leads) Slip == queueing::none ? lead(told, queue) : lead_wrongly(told, queue);
        if (warp_index() < 4) follow(told, queue, g);
    }
    static void lead(feed& told, const task_queue& queue) {
        feed::leader own(told, queue);
        while (queue.has(own.next())) {}
    }
    // What `leader` does, with a mistake.
    static void lead_wrongly(feed& told, const task_queue& queue) {
        if (Slip == queueing::cleared_inside && block_index() == 0) queue.clear();
        feed::numbers::position at;
        claimed ahead = queue.claim();
        for (int i = 0, task = 0; queue.has(task); i++, at.advance()) {
            task = queue.task(ahead);
            if (Slip == queueing::stops_early && i == 1) task = tasks;
            if (Slip != queueing::asked_twice && queue.has(task)) ahead = queue.claim();
            if (Slip == queueing::dropped && i == 0) ahead = queue.claim();
            if (Slip == queueing::cleared_too_early && i == 0) *queue.counter = 0;
            if (Slip != queueing::told_too_early) told.told.ask(at);
            if (Slip != queueing::not_told) store_number(told.told.stages[at.stage], task);
            told.told.hand_over(at);
        }
    }
    static void follow(feed& told, const task_queue& queue, const globals_t& g) {
        feed::follower own(told);
        rt_fl<16, 16> x;
        fill(x, 1.f);
        for (int task = queue.first(); queue.has(task);) {
            store(g.sums, x, element_coord{0, 0, warp_index() * 16, 16 * task});
            if (Slip == queueing::not_released) {
                task = load_number(told.told.take(own.at));
                own.at.advance();
            } else {
                task = own.next();
            }
        }
    }
};

struct entry {
    const char* name;
    void (*start)(const globals_t&);
};

#define PROGRAM(name, ...)                                                    \
    {name, [](const globals_t& g) {                                           \
         using P = __VA_ARGS__;                                               \
         *g.counter = P::counted;                                             \
         launch<P>({P::blocks, limits::shared_bytes, P::claims}, nullptr, g); \
     }}
#define CHAIN(name, ...) {name, __VA_ARGS__::start}
const entry programs[] = {
    PROGRAM("ring", ring<slip::none>),
    PROGRAM("ring_no_full_wait", ring<slip::no_full_wait>),
    PROGRAM("ring_early_reload", ring<slip::early_reload>),
    PROGRAM("ring_no_release_wait", ring<slip::no_release_wait>),
    PROGRAM("ring_wrong_parity", ring<slip::wrong_parity>),
    PROGRAM("ring_stuck_parity", ring<slip::stuck_parity>),
    PROGRAM("flight", flight<touch::none>),
    PROGRAM("flight_map", flight<touch::map>),
    PROGRAM("flight_store", flight<touch::store>),
    PROGRAM("flight_scope", flight<touch::scope>),
    PROGRAM("flight_at_end", flight<touch::at_end>),
    PROGRAM("flight_operand", flight<touch::operand>),
    PROGRAM("flight_alone", flight<touch::alone>),
    PROGRAM("flight_apart", flight<touch::apart>),
    PROGRAM("epilogue", epilogue<output::none>),
    PROGRAM("epilogue_no_fence", epilogue<output::no_fence>),
    PROGRAM("epilogue_no_barrier", epilogue<output::no_barrier>),
    PROGRAM("epilogue_no_read_wait", epilogue<output::no_read_wait>),
    PROGRAM("epilogue_no_last_wait", epilogue<output::no_last_wait>),
    PROGRAM("epilogue_no_reuse_barrier", epilogue<output::no_reuse_barrier>),
    PROGRAM("hand_over", hand_over<true>),
    PROGRAM("hand_over_no_barrier", hand_over<false>),
    PROGRAM("counting", counting<misuse::none>),
    PROGRAM("counting_uninitialised", counting<misuse::uninitialised>),
    PROGRAM("counting_no_start", counting<misuse::no_start>),
    PROGRAM("counting_twice", counting<misuse::twice>),
    PROGRAM("counting_too_many", counting<misuse::too_many>),
    PROGRAM("counting_missing", counting<misuse::missing>),
    PROGRAM("counting_bytes_too_many", counting<misuse::bytes_too_many>),
    PROGRAM("counting_bytes_too_few", counting<misuse::bytes_too_few>),
    PROGRAM("counting_bytes_of_one", counting<misuse::bytes_of_one>),
    PROGRAM("counting_overtaken", counting<misuse::overtaken>),
    PROGRAM("counting_never_waited", counting<misuse::never_waited>),
    PROGRAM("counting_negative_bytes", counting<misuse::negative_bytes>),
    PROGRAM("counting_parity", counting<misuse::parity>),
    PROGRAM("barriers", barriers<meeting::none>),
    PROGRAM("barriers_absent", barriers<meeting::absent>),
    PROGRAM("barriers_disagree", barriers<meeting::disagree>),
    PROGRAM("barriers_twice", barriers<meeting::twice>),
    PROGRAM("barriers_bad_id", barriers<meeting::bad_id>),
    PROGRAM("memory", memory<place::none>),
    PROGRAM("memory_unwritten", memory<place::unwritten>),
    PROGRAM("memory_negative", memory<place::negative>),
    PROGRAM("memory_outside", memory<place::outside>),
    PROGRAM("memory_too_large", memory<place::too_large>),
    PROGRAM("memory_not_shared", memory<place::not_shared>),
    PROGRAM("memory_disagreement", disagreement),
    PROGRAM("memory_negative_load", negative_load),
    PROGRAM("memory_ragged_end", ragged_end),
    PROGRAM("clusters", clusters<neighbour::none>),
    PROGRAM("clusters_early_exit", clusters<neighbour::early_exit>),
    PROGRAM("clusters_early_exit_arrival", clusters<neighbour::early_exit_arrival>),
    PROGRAM("clusters_mask", clusters<neighbour::mask>),
    PROGRAM("clusters_rank", clusters<neighbour::rank>),
    PROGRAM("readings", readings<reading::none>),
    PROGRAM("readings_unsynced", readings<reading::unsynced>),
    PROGRAM("readings_early_exit", readings<reading::early_exit>),
    PROGRAM("readings_overwritten", readings<reading::overwritten>),
    PROGRAM("readings_rank", readings<reading::rank>),
    PROGRAM("grid", grid<target::none>),
    PROGRAM("grid_added", grid<target::added>),
    PROGRAM("grid_same", grid<target::same>),
    PROGRAM("grid_mixed", grid<target::mixed>),
    PROGRAM("adds", adds<adding::right>),
    PROGRAM("adds_past", adds<adding::past>),
    PROGRAM("adds_unfenced", adds<adding::unfenced>),
    PROGRAM("packed_added", packs<packing::added>),
    PROGRAM("packed_added_past", packs<packing::added_past>),
    PROGRAM("packed_past", packs<packing::stored_past>),
    PROGRAM("packed_mixed", packs<packing::mixed>),
    PROGRAM("pairs", pairs<pairing::right>),
    PROGRAM("pairs_past", pairs<pairing::past>),
    PROGRAM("pairs_odd", pairs<pairing::odd>),
    CHAIN("dependent", overtaken<overtaking::none>),
    CHAIN("dependent_announced", overtaken<overtaking::announced>),
    CHAIN("dependent_load", overtaken<overtaking::load>),
    CHAIN("dependent_plain_load", overtaken<overtaking::plain_load>),
    CHAIN("dependent_other_warp", overtaken<overtaking::other_warp>),
    CHAIN("dependent_one_block", overtaken<overtaking::one_block>),
    CHAIN("dependent_store", overtaken<overtaking::store>),
    CHAIN("dependent_plain_store", overtaken<overtaking::plain_store>),
    CHAIN("dependent_add", overtaken<overtaking::add>),
    CHAIN("dependent_never", overtaken<overtaking::never>),
    CHAIN("dependent_on_two", overtaken_by_two<overtaking::none>),
    CHAIN("dependent_on_two_load", overtaken_by_two<overtaking::load>),
    CHAIN("dependent_on_the_last", in_turn<earlier_kernel, late_middle_kernel, early_reader>),
    CHAIN("dependent_on_none_but_early", in_turn<earlier_kernel, middle_kernel, early_reader>),
    PROGRAM("queue", queue<queueing::none>),
    PROGRAM("queue_not_cleared", queue<queueing::not_cleared>),
    PROGRAM("queue_cleared_inside", queue<queueing::cleared_inside>),
    PROGRAM("queue_cleared_too_early", queue<queueing::cleared_too_early>),
    PROGRAM("queue_blocks_in_turn", queue<queueing::blocks_in_turn>),
    PROGRAM("queue_stops_early", queue<queueing::stops_early>),
    PROGRAM("queue_dropped", queue<queueing::dropped>),
    PROGRAM("queue_asked_twice", queue<queueing::asked_twice>),
    PROGRAM("queue_not_told", queue<queueing::not_told>),
    PROGRAM("queue_told_too_early", queue<queueing::told_too_early>),
    PROGRAM("queue_not_released", queue<queueing::not_released>),
};

}  // namespace

// Runs a program with a seed. 0: it ended; 1: `message` says what was found; 2: there is no such program.
extern "C" __attribute__((visibility("default"))) int run_program(const char* name, unsigned long long seed,
                                                                  char* message, int size) {
    static std::vector<bf16> in(64 * 128, from_float<bf16>(1.f)), out(64 * 128);
    static std::vector<float> sums(64 * 256);
    static int counter;
    cpu::forced_options = cpu::options{seed, 1};
    for (const entry& e : programs) {
        if (std::strcmp(e.name, name) != 0) continue;
        try {
            e.start({matrix(in.data(), 1, 1, 64, 128),
                     matrix(out.data(), 1, 1, 64, 128),
                     {sums.data(), 1, 1, 64, 256},
                     &counter});
            return 0;
        } catch (const kittens::error& found) {
            std::snprintf(message, size, "%s", found.what());
            return 1;
        }
    }
    return 2;
}
// Names of all programs, one a line.
extern "C" __attribute__((visibility("default"))) const char* program_names() {
    static const std::string names = [] {
        std::string lines;
        for (const entry& e : programs) lines += std::string(e.name) + "\n";
        return lines;
    }();
    return names.c_str();
}
