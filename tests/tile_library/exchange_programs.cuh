// Blocks of one launch that hand data to one another: small programs, right ones and the same with one mistake. Each
// right one leaves 2 in the first 16 rows of the output, and its counters cleared.
#pragma once

#include <cstring>

#include "guarded.h"
#include "kittens.cuh"

using namespace kittens;

namespace {

constexpr int grid_blocks = 4, counter_count = 8;
using tile = st_bf<64, 64>;
using matrix = gl<bf16, 1, 1, dynamic, dynamic, tile>;

struct globals_t {
    matrix out;              // a tile a block
    exchanged<matrix> mail;  // what blocks hand over, a tile each
    matrix undeclared;       // the memory of `mail`
    exchanged<gl<float, 1, 1, dynamic, dynamic>> sums;
    gl<int, 1, 1, dynamic, dynamic> table;
    counters ready;
    int* queue;
};

template <int Warps = 4, int Blocks = grid_blocks> struct program {
    using globals = globals_t;
    static constexpr int warps = Warps, blocks = Blocks, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int shared_bytes = 64 * 1024;
};

using rows_of_16 = rt_bf<16, 64>;
kittens_device element_coord own_rows(int block) { return {0, 0, 16 * warp_index(), 64 * block}; }
kittens_device coord tile_of(int block) { return {0, 0, 0, block}; }

// The end of every program: its block is done with the counters.
kittens_device void finish(const globals_t& g) {
    sync_block();
    if (warp_index() == 0) retire(g.ready);
}

// --- one block stores from registers, the others load into registers -----------------------------------------------
enum class pass {
    none,
    no_await,
    no_signal,
    no_barrier_before,
    no_barrier_after,
    wrong_counter,
    awaits_another,
    signals_first,
    undeclared_store,
    undeclared_load,
    not_retired,
    one_not_retired,
    retired_twice,
    retired_too_early,
    used_after,
    no_such_counter,
    nothing_awaited,
    nothing_signalled,
    overwritten
};

template <pass P> struct passing : program<> {
    kittens_device static void run(const globals_t& g) {
        rows_of_16 x;
        if (block_index() == 0) {
            fill(x, 2.f);
            if (P == pass::signals_first && warp_index() == 0) signal(g.ready[0]);
            if (P == pass::undeclared_store) store(g.undeclared, x, own_rows(0));
            else store(g.mail, x, own_rows(0));
            if (P != pass::no_barrier_before) sync_block();
            if (P == pass::overwritten && warp_index() == 0) *g.ready[0].at() = 3;
            if (warp_index() == 0) {
                signal(g.ready[1]);
                if (P == pass::nothing_signalled) signal(g.ready[0], 0);
                else if (P != pass::no_signal && P != pass::signals_first)
                    signal(g.ready[P == pass::wrong_counter ? 2 : P == pass::no_such_counter ? counter_count : 0]);
            }
        } else {
            if (P == pass::awaits_another && block_index() == 1 && warp_index() == 0) signal(g.ready[3]);
            if (P != pass::no_await && warp_index() == 0)
                await(g.ready[P == pass::awaits_another ? 3 : 0], P == pass::nothing_awaited ? 0 : 1);
            if (P != pass::no_barrier_after) sync_block();
            if (P == pass::undeclared_load) load(x, g.undeclared, own_rows(0));
            else load(x, g.mail, own_rows(0));
        }
        store(g.out, x, own_rows(block_index()));
        if (P == pass::not_retired || (P == pass::one_not_retired && block_index() == 2)) return;
        if (P == pass::retired_too_early) {
            if (warp_index() == 1) retire(g.ready);
            return;
        }
        finish(g);
        if (P == pass::retired_twice && warp_index() == 0) retire(g.ready);
        if (P == pass::used_after && warp_index() == 0) signal(g.ready[1]);
    }
};

// --- the copy engine stores and loads ------------------------------------------------------------------------------
enum class engine {
    none,
    read_wait,
    wait_after,
    one_pending,
    other_warp,
    load_too_early,
    plain_load,
    plain_store,
    copied,
    own_unfenced
};

template <engine E> struct by_engine : program<2> {
    kittens_device static void run(const globals_t& g) {
        shared_allocator memory;
        tile& x = *memory.allocate<tile>("x");
        auto& full = *memory.allocate<semaphore>("full");
        if (warp_index() == 0) init(full, 1);
        sync_start();
        if (block_index() == 0) {
            if (warp_index() == 0) send(g, x);
            if (E == engine::other_warp && warp_index() == 1) signal(g.ready[0]);
            if (E == engine::own_unfenced) {
                sync_block();
                if (warp_index() == 1) fetch(g, x, full);
            }
        } else if (warp_index() == 0) {
            rt_bf<64, 64> y;
            if (E == engine::load_too_early) fetch(g, x, full);
            await(g.ready[0], 1);
            if (E == engine::plain_load) {
                load(y, g.mail, tile_of(0));
            } else if (E == engine::copied) {
                group<1>::copy_async(x, g.mail, tile_of(0));
                copy_commit(), copy_wait();
                load(y, x);
            } else {
                if (E != engine::load_too_early) fetch(g, x, full);
                wait(full, 0);
                load(y, x);
            }
            store(g.out, y, tile_of(block_index()));
        }
        finish(g);
    }
    kittens_device static void send(const globals_t& g, tile& x) {
        rt_bf<64, 64> y;
        fill(y, 2.f);
        store(g.out, y, tile_of(0));
        if (E == engine::plain_store || E == engine::own_unfenced) {
            store(g.mail, y, tile_of(0));
            if (E == engine::own_unfenced) return;
        } else {
            store(x, y);
            fence_async();
            store_async(g.mail, x, tile_of(0));
            if (E == engine::read_wait || E == engine::wait_after) store_read_wait();
            else if (E == engine::one_pending) store_wait<1>();
            else store_wait();
        }
        if (E != engine::other_warp) signal(g.ready[0]);
        store_wait();
    }
    kittens_device static void fetch(const globals_t& g, tile& x, semaphore& full) {
        const loading phase(full, tile::bytes);
        load_async(x, g.mail, tile_of(0), full);
    }
};

// --- many blocks store, one waits for all of them ------------------------------------------------------------------
enum class gather {
    none,
    chained,
    too_low,
    too_high,
    signals_twice,
    by_two,
    early,
    added,
    added_too_low,
    added_wrongly
};

template <gather G> struct gathering : program<1> {
    static constexpr bool adds = G == gather::added || G == gather::added_too_low || G == gather::added_wrongly;
    kittens_device static void run(const globals_t& g) {
        shared_allocator memory;
        auto& packed = *memory.allocate<sv_fl<256>>("packed");
        rows_of_16 x;
        rt_fl<16, 16> part;
        fill(x, 2.f), fill(part, 1.f);
        const int block = block_index();
        if (block == 0) {
            await(g.ready[0], G == gather::too_low || G == gather::added_too_low ? 2 : G == gather::too_high ? 4 : 3);
            if (adds) {
                load_packed(part, g.sums, coord{});
                convert(x, part);
            }
            for (int other = 1; other < grid_blocks && !adds; other++) load(x, g.mail, own_rows(other));
        } else if (adds) {
            store_packed(packed, part);
            fence_async();
            if (G == gather::added_wrongly && block == 2) store_async(g.sums, packed, coord{});
            else store_add_async(g.sums, packed, coord{});
            store_wait();
            signal(g.ready[0]);
        } else {
            if (G == gather::early && block == 3) signal(g.ready[0]);
            store(g.mail, x, own_rows(block));
            if (G == gather::chained && block > 1) await(g.ready[block], 1);
            if (G != gather::early || block != 3) signal(g.ready[0], G == gather::by_two && block == 1 ? 2 : 1);
            if (G == gather::signals_twice && block == 2) signal(g.ready[0]);
            if (G == gather::chained && block + 1 < grid_blocks) signal(g.ready[block + 1]);
        }
        if (!adds) store(g.out, x, own_rows(block));
        else if (block == 0)
            for (int other = 0; other < grid_blocks; other++) store(g.out, x, own_rows(other));
        finish(g);
    }
    kittens_device static void convert(rows_of_16& x, const rt_fl<16, 16>& part) {
        rt_bf<16, 16> sum;
        copy(sum, part);
        fill(x, value_of(sum) - 1.f);  // three were added
    }
    kittens_device static float value_of(const rt_bf<16, 16>& sum) {
        rt_fl<16, 16> wide;
        copy(wide, sum);
        rt_fl<16, 16>::col_vec most;
        row_max(most, wide);
        return max(most);
    }
};

// --- a block passes on what it was told ----------------------------------------------------------------------------
enum class relay { none, does_not_wait, order };

template <relay R> struct relays : program<1> {
    kittens_device static void run(const globals_t& g) {
        rows_of_16 x;
        fill(x, 2.f);
        const int block = block_index();
        if (block == 0) {
            if (R == relay::order) await(g.ready[grid_blocks - 1], 1);  // which the last of the chain would signal
            store(g.mail, x, own_rows(0));
            signal(g.ready[0]);
        } else {
            if (R != relay::does_not_wait || block != 1) await(g.ready[block - 1], 1);
            signal(g.ready[block]);
        }
        if (block == grid_blocks - 1) load(x, g.mail, own_rows(0));
        store(g.out, x, own_rows(block));
        finish(g);
    }
};

// --- one place in memory is used again -----------------------------------------------------------------------------
enum class staging { none, not_awaited, freed_too_early, awaits_the_last, full_not_awaited };

template <staging S> struct stages : program<1, 2> {
    static constexpr int steps = 4;
    kittens_device static void run(const globals_t& g) {
        shared_allocator memory;
        tile& x = *memory.allocate<tile>("x");
        auto& full = *memory.allocate<semaphore>("full");
        if (warp_index() == 0) init(full, 1);
        sync_start();
        rt_bf<64, 64> y;
        for (int step = 0; step < steps; step++)
            if (block_index() == 0) {
                fill(y, float(step));
                if (step > 0 && S != staging::not_awaited)
                    await(g.ready[1], S == staging::awaits_the_last ? step - 1 + (step == 1) : step);
                if (step > 0) store_read_wait();
                store(x, y);
                fence_async();
                store_async(g.mail, x, coord{});
                store_wait();
                signal(g.ready[0]);
            } else {
                await(g.ready[0], S == staging::full_not_awaited ? (step > 0 ? step : 1) : step + 1);
                {
                    const loading phase(full, tile::bytes);
                    load_async(x, g.mail, coord{}, full);
                }
                if (S == staging::freed_too_early) signal(g.ready[1]);
                wait(full, step % 2);
                if (S != staging::freed_too_early) signal(g.ready[1]);
                load(y, x);
            }
        add(y, y, float(2 - (steps - 1)));
        for (int i = 0; i < 2; i++) store(g.out, y, tile_of(2 * block_index() + i));
        finish(g);
    }
};

// --- all blocks meet, again and again ------------------------------------------------------------------------------
enum class meeting { none, too_early, no_second, skipped };

template <meeting M> struct meetings : program<1> {
    static constexpr int rounds = 3;
    kittens_device static void run(const globals_t& g) {
        rows_of_16 x;
        const int block = block_index(), next = (block + 1) % grid_blocks;
        fill(x, 2.f - rounds);
        for (int round = 0; round < rounds; round++) {
            add(x, x, 1.f);
            store(g.mail, x, own_rows(block));
            meet(g, 2 * round + 1);
            load(x, g.mail, own_rows(next));
            if (M != meeting::no_second) meet(g, 2 * round + 2);
        }
        store(g.out, x, own_rows(block));
        finish(g);
    }
    kittens_device static void meet(const globals_t& g, int number) {
        if (M == meeting::no_second) number = (number + 1) / 2;
        signal(g.ready[0]);
        if (M == meeting::skipped && block_index() == 2 && number == 3) return;
        await(g.ready[0], grid_blocks * number - (M == meeting::too_early && number == 3 ? 1 : 0));
    }
};

// --- whoever comes last reads what all have stored -----------------------------------------------------------------
enum class last {
    none,
    awaited,
    one_too_early,
    everybody,
    claimed,
    other_counters,
    no_barrier_before,
    no_barrier_after,
    not_retired
};

template <last L> struct lasts : program<4> {
    kittens_device static void run(const globals_t& g) {
        shared_allocator memory;
        auto& count = *memory.allocate<int>("count");
        rows_of_16 x;
        fill(x, 2.f);
        const int block = block_index();
        store(g.mail, x, own_rows(block));
        if (L != last::no_barrier_before) sync_block();
        if (warp_index() == 0) store_number(count, place(g));
        if (L != last::no_barrier_after) sync_block();
        int wanted = grid_blocks;
        if (L == last::one_too_early) wanted = grid_blocks - 1;
        if (L == last::other_counters) wanted = grid_blocks / 2;
        if (L == last::awaited) {
            if (warp_index() == 0 && load_number(count) < wanted) await(g.ready[0], wanted);
            sync_block();
            load(x, g.mail, own_rows((block + 1) % grid_blocks));
            store(g.out, x, own_rows(block));
        } else if (L == last::everybody || load_number(count) == wanted) {
            for (int other = 0; other < grid_blocks; other++) {
                load(x, g.mail, own_rows(other));
                if (L != last::everybody || other == block) store(g.out, x, own_rows(other));
            }
        }
        if (L != last::not_retired) finish(g);
    }
    // How many blocks have come. A number that is claimed orders nothing.
    kittens_device static int place(const globals_t& g) {
        if (L == last::claimed) return 1 + number_of(claim(g.queue, grid_blocks));
        return signal_and_count(g.ready[L == last::other_counters ? block_index() % 2 : 0]);
    }
};

// The same where the copy engine stores and loads.
enum class last_engine { none, read_wait };

template <last_engine L> struct lasts_by_engine : program<1> {
    kittens_device static void run(const globals_t& g) {
        shared_allocator memory;
        tile& x = *memory.allocate<tile>("x");
        auto& full = *memory.allocate<semaphore>("full");
        init(full, 1);
        sync_start();
        rt_bf<64, 64> y;
        fill(y, 2.f);
        store(x, y);
        fence_async();
        store_async(g.mail, x, tile_of(block_index()));
        if (L == last_engine::read_wait) store_read_wait();
        else store_wait();
        if (signal_and_count(g.ready[0]) == grid_blocks)
            for (int other = 0; other < grid_blocks; other++) {
                {
                    const loading phase(full, tile::bytes);
                    load_async(x, g.mail, tile_of(other), full);
                }
                wait(full, other % 2);
                load(y, x);
                store(g.out, y, tile_of(other));
            }
        store_wait();
        finish(g);
    }
};

// --- a queue and a table --------------------------------------------------------------------------------------------
// Tasks from a queue; each adds 0.5 to its tile, and a tile's four tasks may be any blocks'.
enum class tasks { none, unordered };
template <tasks T> struct resident_queue : program<1, 3> {
    kittens_device static void run(const globals_t& g) {
        const task_queue queue{16, g.queue};
        rows_of_16 x;
        for (int task = queue.first(); queue.has(task); task = queue.task(queue.claim())) {
            const int place = load_integer(g.table, element_coord{0, 0, 0, task % 4}), turn = task / 4;
            if (turn == 0) fill(x, 0.f);
            else if (T != tasks::unordered) await(g.ready[place], turn);
            if (turn > 0) load(x, g.mail, own_rows(place));
            add(x, x, 0.5f);
            store(g.mail, x, own_rows(place));
            if (turn == 3) store(g.out, x, own_rows(place));
            signal(g.ready[place]);
        }
        finish(g);
    }
};

// --- launches whose blocks are not there at once -------------------------------------------------------------------
enum class plainly { none, load, load_async, copy, value, signal, await, retire };

template <plainly P> struct plain : program<1> {
    kittens_device static void run(const globals_t& g) {
        shared_allocator memory;
        tile& x = *memory.allocate<tile>("x");
        auto& full = *memory.allocate<semaphore>("full");
        init(full, 1);
        sync_start();
        rt_bf<64, 64> y;
        fill(y, 2.f);
        store(g.undeclared, y, tile_of(block_index()));
        const coord from = tile_of(P == plainly::none ? block_index() : grid_blocks - 1);
        if (P == plainly::none || P == plainly::load) load(y, g.undeclared, from);
        if (P == plainly::load_async) {
            const loading phase(full, tile::bytes);
            load_async(x, g.undeclared, from, full);
        }
        if (P == plainly::load_async) wait(full, 0);
        if (P == plainly::copy) {
            group<1>::copy_async(x, g.undeclared, from);
            copy_commit(), copy_wait();
        }
        if (P == plainly::value) fill(y, load_value(g.undeclared, element_coord{0, 0, 0, 64 * from.c}));
        if (P == plainly::signal) signal(g.ready[0]);
        if (P == plainly::await) await(g.ready[0], 1);
        if (P == plainly::retire) retire(g.ready);
        store(g.out, y, tile_of(block_index()));
    }
};

// More blocks than any device holds.
struct crowd : program<1> {
    kittens_device static void run(const globals_t& g) { retire(g.ready); }
};

struct entry {
    const char* name;
    void (*start)(const globals_t&);
};
template <typename P> void start_resident(const globals_t& g) {
    launch_resident<P>({P::blocks, P::shared_bytes}, nullptr, g);
}
template <typename P> void start_plain(const globals_t& g) { launch<P>({P::blocks, P::shared_bytes}, nullptr, g); }
inline void start_crowd(const globals_t& g) {
    launch_resident<crowd>({64 * multiprocessors(), crowd::shared_bytes}, nullptr, g);
}
// A launch that leaves the counters as it found them, three times.
template <typename P> void start_thrice(const globals_t& g) {
    for (int i = 0; i < 3; i++) start_resident<P>(g);
}

// Runs one of a source's programs, on memory of the device: 0, or 1 with what was found in the message.
template <int Count>
int run_one(const entry (&programs)[Count], const char* name, void* out, void* mail, void* sums, void* words,
            void* table, void* queue, char* message, int size) {
    constexpr int cols = 64 * grid_blocks;
    const auto run = [&] {
        for (const entry& e : programs)
            if (std::strcmp(e.name, name) == 0)
                return e.start({{static_cast<bf16*>(out), 1, 1, 64, cols},
                                matrix{static_cast<bf16*>(mail), 1, 1, 64, cols},
                                {static_cast<bf16*>(mail), 1, 1, 64, cols},
                                {static_cast<float*>(sums), 1, 1, 1, 256},
                                {static_cast<int*>(table), 1, 1, 1, 4},
                                {static_cast<int*>(words), counter_count},
                                static_cast<int*>(queue)});
        throw std::invalid_argument("there is no such program");
    };
    return guarded(run, message, size);
}

}  // namespace
