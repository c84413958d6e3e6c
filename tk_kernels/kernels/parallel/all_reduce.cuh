// All-reduce of bf16 over the ranks of a host: each rank leaves with the sum of all, added up in fp32 in the order of
// the ranks, so that all have the same bits, whoever comes first.
//
// Numbers move in lines of 16 bytes a lane; a warp takes a piece of a few hundred at a time. Either
//   one-shot  every rank stores what it has to all others, and adds up all that it is given: W - 1 times the bytes on
//             the wire, one exchange of flags;
//   two-shot  a rank gets its share of the numbers from all, adds them up, and stores the sums to all: twice
//             (W - 1) / W of the bytes, two exchanges.
// Both go by way of `staging`, which lies on every rank, two sets of it in turn: a rank that has heard from all in this
// launch is at most one ahead (docs/tile_library.md, Ranks). A block of every rank takes the same pieces, so that it
// waits for the blocks of its own number alone.
//
// registers      a piece of one rank in fp32 and of another in bf16: 24 a thread and places
// any number of pieces; the last one ends with the tensor
#pragma once

#include "kittens.cuh"

namespace tk::all_reduce {
using namespace kittens;

constexpr int most_ranks = 8, most_blocks = 32;
constexpr int flag_count = 2 * most_ranks * most_blocks;

using row_of = gl<bf16, 1, 1, 1, dynamic>;
using parts_of = gl<bf16, 1, dynamic, dynamic, dynamic>;  // set, part, number

struct globals_t {
    row_of in, out;
    peers<parts_of, most_ranks> given;  // what each rank gives: its part, in each of two sets
    peers<parts_of, most_ranks> sums;   // two-shot: the sums, in each of two sets
    flags<most_ranks> f;
    int pieces;
};

template <bool TwoShot> struct kernel {
    using globals = globals_t;
    static constexpr int warps = 16, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int piece = 512;
    using line = rl<bf16, 1, piece>;
    using total = rl<float, 1, piece>;
    enum exchange { parts, results };

    kittens_device static int flag_of(const globals& g, exchange what, int from) {
        return (what * most_blocks + block_index()) * most_ranks + from;
    }
    // Of a rank's share of the pieces, or of all; this warp's, of all warps of this block and of those beside it.
    template <typename F> kittens_device static void each_piece(const globals& g, int share, F f) {
        const int first = TwoShot ? int(int64_t(g.pieces) * share / g.f.ranks) : 0;
        const int end = TwoShot ? int(int64_t(g.pieces) * (share + 1) / g.f.ranks) : g.pieces;
        for (int i = first + block_index() * warps + warp_index(); i < end; i += block_count() * warps) f(i * piece);
    }
    // To all ranks, behind all that this block has stored; and from all of them.
    kittens_device static void tell(const globals& g, exchange what, int launches) {
        sync_block();
        if (warp_index() != 0) return;
        for (int step = 0; step < g.f.ranks; step++)
            signal(g.f, rotation(g.f, step), flag_of(g, what, g.f.rank), launches);
    }
    kittens_device static void hear(const globals& g, exchange what, int launches) {
        if (warp_index() == 0)
            for (int from = 0; from < g.f.ranks; from++) await(g.f, flag_of(g, what, from), launches);
        sync_block();
    }

    kittens_device static void run(const globals& g) {
        const int began = epoch(g.f), set = began % 2;
        give(g, set);
        tell(g, parts, began + 1);
        hear(g, parts, began + 1);
        each_piece(g, g.f.rank, [&](int col) { add_up(g, set, col); });
        if constexpr (TwoShot) {
            tell(g, results, began + 1);
            hear(g, results, began + 1);
            for (int share = 0; share < g.f.ranks; share++)
                each_piece(g, share, [&](int col) {
                    line x;
                    load(x, g.sums.on(g.f.rank), {0, set, 0, col});
                    store(g.out, x, {0, 0, 0, col});
                });
        }
        if (warp_index() == 0) retire(g.f);
    }

    // Its own numbers a rank has where they are.
    kittens_device static void give(const globals& g, int set) {
        for (int step = 0; step + 1 < g.f.ranks; step++) {
            const int to = rotation(g.f, step);
            each_piece(g, to, [&](int col) {
                line x;
                load(x, g.in, {0, 0, 0, col});
                store(g.given.on(to), x, {0, set, g.f.rank, col});
            });
        }
    }
    kittens_device static void add_up(const globals& g, int set, int col) {
        total sum;
        zero(sum);
        for (int from = 0; from < g.f.ranks; from++) {
            line x;
            if (from == g.f.rank) load(x, g.in, {0, 0, 0, col});
            else load(x, g.given.on(g.f.rank), {0, set, from, col});
            map_lines(sum, ops::add{}, sum, x);
        }
        if constexpr (TwoShot)
            for (int step = 0; step < g.f.ranks; step++) store(g.sums.on(rotation(g.f, step)), sum, {0, set, 0, col});
        else store(g.out, sum, {0, 0, 0, col});
    }
};

}  // namespace tk::all_reduce
