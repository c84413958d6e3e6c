// Collectives of bf16 over the ranks of a host. Every rank gives rows to all others, by way of `staging`, which lies on
// every rank:
//
//   all_gather      its own row to all; who gets them lines them up
//   all_reduce      the same, and who gets them adds them up (one-shot): W - 1 times the bytes on the wire, one
//                   exchange of flags. Two-shot: a rank gets its share of the numbers from all, and gives its sums to
//                   all: twice (W - 1) / W of the bytes, two exchanges
//   reduce_scatter  row p of its own to rank p, who adds up
//   all_to_all      the same, and rank p lines them up
//
// Sums are in fp32, in the order of the ranks, so that all ranks have the same bits, whoever comes first. Numbers move
// in lines of 16 bytes a lane; a warp takes a piece of a few hundred at a time. A block of every rank takes the same
// pieces, so that it waits for the blocks of its own number alone. Staging has two sets in turn: a rank that has heard
// from all in this launch is at most one ahead (docs/tile_library.md, Ranks).
//
// registers      a piece of one rank in fp32 and of another in bf16: 24 a thread and places
// any number of columns; the last piece of a row ends with it
#pragma once

#include "kittens.cuh"

namespace tk::collectives {
using namespace kittens;

constexpr int most_ranks = 8, most_blocks = 64;
constexpr int flag_count = 2 * most_ranks * most_blocks;
constexpr int piece = 512;

using rows_of = gl<bf16, 1, 1, dynamic, dynamic>;
using sets_of = gl<bf16, 1, dynamic, dynamic, dynamic>;  // set, row, column
using line = rl<bf16, 1, piece>;
using total = rl<float, 1, piece>;

struct globals_t {
    rows_of in, out;
    peers<sets_of, most_ranks> given;  // a row from each rank
    peers<sets_of, most_ranks> sums;   // two-shot: one row
    flags<most_ranks> f;
};

// What the kernels share: of this launch, its number and set of staging.
struct launch_of {
    static constexpr int warps = 16;
    enum exchange { rows, results };

    const globals_t& g;
    int number, set;

    kittens_device explicit launch_of(const globals_t& g_) : g(g_), number(epoch(g_.f) + 1), set(number % 2) {}

    // Columns of this warp's pieces among pieces [first, end).
    template <typename F> kittens_device static void each_piece(int first, int end, F f) {
        for (int i = first + block_index() * warps + warp_index(); i < end; i += block_count() * warps) f(i * piece);
    }
    kittens_device static int flag_of(exchange what, int from) {
        return (what * most_blocks + block_index()) * most_ranks + from;
    }
    // To all ranks, behind all that this block has stored; and from all of them.
    kittens_device void tell(exchange what) const {
        sync_block();
        if (warp_index() != 0) return;
        for (int step = 0; step < g.f.ranks; step++) signal(g.f, rotation(g.f, step), flag_of(what, g.f.rank), number);
    }
    kittens_device void hear(exchange what) const {
        if (warp_index() == 0)
            for (int from = 0; from < g.f.ranks; from++) await(g.f, flag_of(what, from), number);
        sync_block();
    }
    // Columns from one on, of row `own` of what this rank has, to rank `to`.
    kittens_device void give(int to, int own, int col) const {
        line x;
        load(x, g.in, {0, 0, own, col});
        store(g.given.on(to), x, {0, set, g.f.rank, col});
    }
    // What rank `from` has given; its own numbers, in row `own`, a rank has where they are.
    kittens_device void fetch(line& x, int from, int own, int col) const {
        if (from == g.f.rank) load(x, g.in, {0, 0, own, col});
        else load(x, g.given.on(g.f.rank), {0, set, from, col});
    }
    kittens_device void add_up(total& sum, int own, int col) const {
        zero(sum);
        for (int from = 0; from < g.f.ranks; from++) {
            line x;
            fetch(x, from, own, col);
            map_lines(sum, ops::add{}, sum, x);
        }
    }
};

// Parts: a row of its own for each rank; else the same one for all. Sums: who gets the rows adds them up.
template <bool Parts, bool Sums> struct exchange_kernel {
    using globals = globals_t;
    static constexpr int warps = launch_of::warps, cluster_blocks = 1, blocks_per_sm = 1;

    kittens_device static void run(const globals& g) {
        const launch_of l(g);
        const int pieces = divide_up(g.in.cols(), piece), own = Parts ? g.f.rank : 0;
        for (int step = 0; step + 1 < g.f.ranks; step++) {
            const int to = rotation(g.f, step);
            l.each_piece(0, pieces, [&](int col) { l.give(to, Parts ? to : 0, col); });
        }
        l.tell(launch_of::rows);
        l.hear(launch_of::rows);
        l.each_piece(0, pieces, [&](int col) {
            if constexpr (Sums) {
                total sum;
                l.add_up(sum, own, col);
                store(g.out, sum, {0, 0, 0, col});
            } else {
                for (int from = 0; from < g.f.ranks; from++) {
                    line x;
                    l.fetch(x, from, own, col);
                    store(g.out, x, {0, 0, from, col});
                }
            }
        });
        if (warp_index() == 0) retire(g.f);
    }
};

// The all-reduce in two shots: a rank adds up its share of the pieces.
struct two_shot_kernel {
    using globals = globals_t;
    static constexpr int warps = launch_of::warps, cluster_blocks = 1, blocks_per_sm = 1;

    template <typename F> kittens_device static void each_piece(const globals& g, int share, F f) {
        const int64_t pieces = divide_up(g.in.cols(), piece);
        launch_of::each_piece(int(pieces * share / g.f.ranks), int(pieces * (share + 1) / g.f.ranks), f);
    }
    kittens_device static void run(const globals& g) {
        const launch_of l(g);
        for (int step = 0; step + 1 < g.f.ranks; step++) {
            const int to = rotation(g.f, step);
            each_piece(g, to, [&](int col) { l.give(to, 0, col); });
        }
        l.tell(launch_of::rows);
        l.hear(launch_of::rows);
        each_piece(g, g.f.rank, [&](int col) {
            total sum;
            l.add_up(sum, 0, col);
            for (int step = 0; step < g.f.ranks; step++) store(g.sums.on(rotation(g.f, step)), sum, {0, l.set, 0, col});
        });
        l.tell(launch_of::results);
        l.hear(launch_of::results);
        for (int share = 0; share < g.f.ranks; share++)
            each_piece(g, share, [&](int col) {
                line x;
                load(x, g.sums.on(g.f.rank), {0, l.set, 0, col});
                store(g.out, x, {0, 0, 0, col});
            });
        if (warp_index() == 0) retire(g.f);
    }
};

}  // namespace tk::collectives
