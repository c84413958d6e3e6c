// Ranks that hand data to one another: small programs, right ones and the same with one mistake. Each rank has a value
// of its own, and leaves the sum of all in the first 16 rows of its output, whichever launch it is.
#pragma once

#include <cstring>

#include "guarded.h"
#include "kittens.cuh"

using namespace kittens;

namespace {

constexpr int most = 4, blocks = 2, counter_count = 4;
constexpr int flag_count = 3 * most * blocks;
using tile = st_bf<16, 64>;
using matrix = gl<bf16, 1, 1, dynamic, dynamic, tile>;
using rank_flags = flags<most>;

struct globals_t {
    peers<matrix, most> staging;  // two sets of a tile from each rank for each block
    peers<matrix, most> out;      // a tile a block
    matrix undeclared;            // the memory of this rank's staging
    rank_flags f;
    counters ready, of_next;  // of this rank, and of the one behind it
    float value;
};

struct program {
    using globals = globals_t;
    static constexpr int warps = 2, cluster_blocks = 1, blocks_per_sm = 1, shared_bytes = 16 * 1024;
};

using rows_of_16 = rt_bf<16, 64>;
kittens_device element_coord place(int set, int from) { return {0, 0, 16 * (set * most + from), 64 * block_index()}; }
kittens_device element_coord own() { return {0, 0, 0, 64 * block_index()}; }
kittens_device int flag_of(int from, int kind = 0) { return (kind * most + from) * blocks + block_index(); }

// --- each rank gives its tile to all, and adds up what it is given, in the order of the ranks ------------------------
enum class sharing {
    none,
    no_await,
    short_target,
    no_signal,
    wrong_rank,
    wrong_flag,
    signals_first,
    one_set,
    set_of_before,
    not_retired,
    one_not_retired,
    used_after,
    cleared,
    own_counter,
    undeclared,
    epoch_late,
    one_flag_for_all,
    does_not_rise,
    no_such_flag,
    no_such_rank
};

template <sharing S> struct shares : program {
    kittens_device static void run(const globals_t& g) {
        const int began = epoch(g.f), set = S == sharing::one_set ? 0 : began % 2;
        if (warp_index() == 0) {
            give(g, began, set);
            take(g, began, S == sharing::set_of_before ? 1 - set : set);
        }
        if (S != sharing::epoch_late) sync_block();
        if (S == sharing::epoch_late && warp_index() == 1 && epoch(g.f) < 0) return;
        if (S == sharing::not_retired || (S == sharing::one_not_retired && block_index() == 1)) return;
        if (warp_index() != 0) return;
        if (S == sharing::cleared && block_index() == 0) *g.f.at(g.f.rank, 0) = 0;
        retire(g.f);
        if (S == sharing::used_after) signal(g.f, 0, flag_of(g.f.rank), began + 1);
    }
    kittens_device static void give(const globals_t& g, int began, int set) {
        rows_of_16 x;
        fill(x, g.value);
        for (int step = 0; step < g.f.ranks; step++) {
            const int to = rotation(g.f, step);
            const int index = S == sharing::one_flag_for_all ? flag_of(0) : flag_of(g.f.rank);
            if (S == sharing::signals_first) signal(g.f, to, index, began + 1);
            store(g.staging.on(to), x, place(set, g.f.rank));
            if (S == sharing::signals_first || (S == sharing::no_signal && g.f.rank == 1)) continue;
            if (S == sharing::own_counter && to == (g.f.rank + 1) % g.f.ranks) signal(g.of_next[block_index()]);
            signal(g.f,
                   S == sharing::wrong_rank     ? 0
                   : S == sharing::no_such_rank ? g.f.ranks
                                                : to,
                   S == sharing::no_such_flag ? flag_count
                   : S == sharing::wrong_flag ? flag_of((g.f.rank + 1) % g.f.ranks)
                                              : index,
                   S == sharing::does_not_rise ? 1 : began + 1);
        }
    }
    kittens_device static void take(const globals_t& g, int began, int set) {
        rows_of_16 x, sum;
        fill(sum, 0.f);
        if (S == sharing::own_counter) await(g.ready[block_index()], 1);
        if (S == sharing::one_flag_for_all) await(g.f, flag_of(0), began + 1);
        for (int from = 0; from < g.f.ranks; from++) {
            if (S != sharing::no_await && S != sharing::one_flag_for_all)
                await(g.f, flag_of(from), S == sharing::short_target ? began : began + 1);
            if (S == sharing::undeclared) load(x, g.undeclared, place(set, from));
            else load(x, g.staging.on(g.f.rank), place(set, from));
            add(sum, sum, x);
        }
        store(g.out.on(g.f.rank), sum, own());
    }
};

// --- the same by the copy engine -------------------------------------------------------------------------------------
enum class engine { none, read_wait, wait_after, load_too_early };

template <engine E> struct by_engine : program {
    kittens_device static void run(const globals_t& g) {
        shared_allocator memory;
        tile& x = *memory.allocate<tile>("x");
        tile* const given = memory.allocate<tile>("given", most);
        auto& full = *memory.allocate<semaphore>("full");
        if (warp_index() == 0) init(full, 1);
        sync_start();
        rows_of_16 y, sum;
        if (warp_index() == 0) {
            const int began = epoch(g.f), set = began % 2;
            fill(y, g.value);
            store(x, y);
            fence_async();
            for (int step = 0; step < g.f.ranks; step++) {
                const int to = rotation(g.f, step);
                store_async(g.staging.on(to), x, place(set, g.f.rank));
                if (E == engine::read_wait) store_read_wait();
                else if (E != engine::wait_after) store_wait();
                signal(g.f, to, flag_of(g.f.rank), began + 1);
            }
            store_wait();
            {
                const loading phase(full, g.f.ranks * tile::bytes);
                for (int from = 0; from < g.f.ranks; from++) {
                    if (E != engine::load_too_early) await(g.f, flag_of(from), began + 1);
                    load_async(given[from], g.staging.on(g.f.rank), place(set, from), full);
                    if (E == engine::load_too_early) await(g.f, flag_of(from), began + 1);
                }
            }
            wait(full, 0);
            fill(sum, 0.f);
            for (int from = 0; from < g.f.ranks; from++) {
                load(y, given[from]);
                add(sum, sum, y);
            }
            store(g.out.on(g.f.rank), sum, own());
            retire(g.f);
        }
    }
};

// --- each rank's tile goes straight to where all want it, behind a word of theirs that their earlier kernels are done
enum class directly { none, not_opened, opened_by_another, opened_late };

template <directly D> struct direct : program {
    kittens_device static void run(const globals_t& g) {
        if (warp_index() != 0) return;
        const int began = epoch(g.f);
        rows_of_16 x, sum;
        for (int step = 0; step < g.f.ranks; step++) signal(g.f, rotation(g.f, step), flag_of(g.f.rank, 1), began + 1);
        fill(x, g.value);
        for (int step = 0; step < g.f.ranks; step++) {
            const int to = rotation(g.f, step), opens = D == directly::opened_by_another ? (to + 1) % g.f.ranks : to;
            if (D != directly::not_opened && D != directly::opened_late) await(g.f, flag_of(opens, 1), began + 1);
            store(g.staging.on(to), x, place(0, g.f.rank));
            if (D == directly::opened_late) await(g.f, flag_of(opens, 1), began + 1);
            signal(g.f, to, flag_of(g.f.rank), began + 1);
        }
        fill(sum, 0.f);
        for (int from = 0; from < g.f.ranks; from++) {
            await(g.f, flag_of(from), began + 1);
            load(x, g.staging.on(g.f.rank), place(0, from));
            add(sum, sum, x);
        }
        store(g.out.on(g.f.rank), sum, own());
        retire(g.f);
    }
};
// A kernel that reads the result of the launch before, and knows of no ranks.
struct reader : program {
    kittens_device static void run(const globals_t& g) {
        rows_of_16 x;
        if (warp_index() != 0) return;
        for (int from = 0; from < g.f.ranks; from++) load(x, g.undeclared, place(0, from));
    }
};

// --- all meet, again and again ---------------------------------------------------------------------------------------
enum class meeting { none, no_second, too_early };

template <meeting M> struct meetings : program {
    static constexpr int rounds = 3;
    kittens_device static void run(const globals_t& g) {
        if (warp_index() != 0) return;
        rows_of_16 x, sum;
        for (int round = 0; round < rounds; round++) {
            fill(x, g.value + round - (rounds - 1));
            store(g.staging.on(g.f.rank), x, place(0, g.f.rank));
            meet(g.f, flag_of(0) * most, 2 * round + 1 - (M == meeting::too_early && round == 1), 2 * rounds);
            fill(sum, 0.f);
            for (int from = 0; from < g.f.ranks; from++) {
                load(x, g.staging.on(from), place(0, from));
                add(sum, sum, x);
            }
            if (M != meeting::no_second) meet(g.f, flag_of(0) * most, 2 * round + 2, 2 * rounds);
        }
        store(g.out.on(g.f.rank), sum, own());
        retire(g.f);
    }
};

struct entry {
    const char* name;
    void (*start)(const globals_t&);
};
template <typename P> void start(const globals_t& g) { launch_ranks<P>({blocks, P::shared_bytes}, nullptr, g, g.f); }
template <typename P> void start_behind_reader(const globals_t& g) {
    start<reader>(g);
    start<P>(g);
}

// One launch of a rank, whose memory and that of all others is given: 0, or 1 with what was found in the message.
template <int Count>
int run_one(const entry (&programs)[Count], const char* name, int rank, int ranks, void* const* staging,
            void* const* out, void* const* words, void* const* counted, float value, char* message, int size) {
    const auto run = [&] {
        const auto of = [&](void* const* memory, int rows) {
            const auto on = [&](int r) {
                return matrix(static_cast<bf16*>(memory[r < ranks ? r : 0]), 1, 1, rows, 64 * blocks);
            };
            return peers<matrix, most>{{on(0), on(1), on(2), on(3)}};
        };
        rank_flags f{{}, rank, ranks, flag_count, stall_report()};
        for (int r = 0; r < ranks; r++) f.words[r] = static_cast<int*>(words[r]);
        const auto set_of = [&](int r) { return counters(static_cast<int*>(counted[r]), counter_count); };
        for (const entry& e : programs)
            if (std::strcmp(e.name, name) == 0)
                return e.start({of(staging, 16 * 2 * most), of(out, 16), of(staging, 16 * 2 * most).of[rank], f,
                                set_of(rank), set_of((rank + 1) % ranks), value});
        throw std::invalid_argument("there is no such program");
    };
    return guarded(run, message, size);
}

}  // namespace
