// Long convolution, y = Re ifft(fft(u) fft(k)), bf16, by the Monarch decomposition: the transform of N = 64 R points is
// done on a matrix of R rows and 64 columns (point 64 a + b at row a, column b) as two multiplies by small DFT
// matrices.
//
//   Y = F_R U     Y' = Y o T     Z = Y' F_64     frequency c + R d is then at row c, column d
//   Z' = Z o K    W = Z' conj(F_64)     W' = W o conj(T)     y = conj(F_R) W'         T(c, b) = exp(-2 pi i b c / N)
//
// Two sequences of one channel are the real and the imaginary part of one complex one, for the filter is real: nothing
// is computed in vain. Causal: one sequence, at the frequencies plus a quarter, which the factors know; what is carried
// around the end is then the imaginary part. A consumer warpgroup works on a tile of 64 x 64: 64 / R such signals below
// one another, or the even or the odd frequencies of 8192 points, which both consumers share (README.md). F_64 is
// never multiplied by: a transform of 64 points is two of 32 and sums and differences of their results (or operands),
// which one lane holds; so F_32 is what the tensor cores know, half of the multiplies. Its real and imaginary part
// stand beside (for F_R: eight rows of one below eight of the other) one another as one real operand, and come out as
// such. The left one stays in registers for the whole launch, and so does T. Each result is rounded to bf16 in the
// registers where the next multiply wants it; only W' changes hands, for which the output's tile serves. One warp loads
// by TMA, one stores; a stage is a tile and the spectrum of its channel (its rows repeated for each pair) for each of
// two consumers.
//
// speed          README.md
// shared memory  2 stages of 64 KB, 2 outputs of 32 KB, factors 24 KB: 216 KB; where registers stay with their
//                warpgroups half as much of each for the one consumer, T beside, one output: 120 KB, 88 KB by 1 stage
// registers      of 240 a thread: 64 sums, 32 operand, 16 F_32, 64 T in fp32, 32 spectrum
// any batch and number of channels; N = 1024, 2048, 4096 or, circular, 8192 points, or any multiple of 64 (128 above
// 2048) below, as if zeros followed
#pragma once

#include "fft_conv.h"
#include "kittens.cuh"

namespace tk::fft_conv {

using namespace kittens;

using tile = cst_bf<tile_rows, columns>;
using block = st_bf<half_rows, columns>;  // of the factors
struct twiddle_table {
    tile twiddle;
};

// Large: a block may have what the larger of a target's machines have.
template <int Rows, bool Causal, bool Large = true> struct kernel : lcsf_defaults {
    static constexpr bool large_blocks = Large, together = Rows > tile_rows;  // together: both, on one transform
    // One consumer where warpgroups keep their registers: two would have 168 a thread.
    static constexpr int consumers = together || limits::moves_registers ? 2 : 1, output_stages = consumers;
    static constexpr int tile_bytes = consumers * int(sizeof(tile));
    static constexpr int other_bytes =
        output_stages * tile_bytes + 6 * int(sizeof(block)) + (consumers == 1 ? int(sizeof(tile)) : 0) + 1024;
    static constexpr int stages =
        Large ? limits::large_stages(2, 2 * tile_bytes, other_bytes) : limits::stages(2, 2 * tile_bytes, other_bytes);
    static constexpr int consumer_registers = limits::consumer_registers(24, consumers);
    static constexpr int rows = together ? tile_rows : Rows, signals = tile_rows / rows;  // complex ones, of a tile
    static constexpr int parts = Causal ? 1 : 2;                                          // sequences of a signal
    static constexpr int tile_sequences = parts * signals;                                // of one channel
    static constexpr bool alternate = !together && consumers == 2;
    // Barriers: the consumers', a warpgroup's own, and its turn.
    static constexpr int everyone = 1, own_group = 2, turns = own_group + consumers;
    // A signal that fills the tile lies there with its even rows above its odd ones: row 2 i and row 2 i + 1 of the
    // sequence are one row of the global tensor. So do the spectrum's of a transform by both.
    static constexpr bool split = rows == tile_rows;
    static constexpr int row_elements = split ? 2 * columns : columns, pieces = split ? 2 : 1;

    using piece = st_bf<rows / pieces, columns>;  // what one TMA instruction moves
    using spectrum_piece = st_bf<rows, columns>;
    using sequences = gl<bf16, dynamic, dynamic, dynamic, row_elements, piece>;
    struct globals {
        sequences u, y;
        gl<bf16, dynamic, 2, rows, Rows / rows * columns, spectrum_piece> spectrum;
        gl<bf16, 1, Rows / rows, constant_rows, columns, block, st_bf<tile_rows, columns>> constants;
        int groups;  // tiles a channel
        int steps;   // of a tile for each consumer, in all
    };
    struct input {
        tile u[consumers], spectrum[consumers];
        static constexpr int bytes = consumers * (parts + 2) * st_bf<tile_rows, columns>::bytes;
    };
    struct output {
        tile y[consumers];
    };
    struct tables {
        block even[2], odd[2], back_odd[2];
    };
    struct workspace : tables, std::conditional_t<consumers == 1, twiddle_table, lcsf_defaults::none> {
        semaphore loaded;
    };
    using task = block_share;
    // What a consumer keeps in registers: F of 32 rows, T, and w. Of a transform by both also the other's F.
    using left_factor = crt_bf<16, half_rows>;
    struct factors {
        left_factor left, other;
        crt_fl<16, columns> twiddle;  // unless it stays in shared memory
        complex<typename rt_fl<16, columns>::col_vec> turn;
    };

    // Those of a channel one after the other.
    kittens_device static bool get_task(task& t, const globals& g, int i) {
        t = share_of_block(g.steps);
        return i == 0;
    }
    // Where a consumer's tile begins: its first sequence, its channel, and which half of the points it is. The very
    // last may be beyond them all.
    kittens_device static coord find(const task& t, int step, int consumer, const globals& g) {
        const int index = together ? t.first + step : consumers * (t.first + step) + consumer;
        return {index % g.groups * tile_sequences, index / g.groups, together ? consumer : 0, 0};
    }

    // f(piece, its place) of all that a tile has.
    template <typename F> kittens_device static void each_piece(tile& x, coord first, F f) {
        for (int s = 0; s < signals; s++)
            for (int part = 0; part < pieces; part++) {
                const int at = s * pieces + part, batch = first.b + parts * s;
                f(subtile<piece::rows, columns>(x.real, at, 0), coord{batch, first.d, first.r, part});
                if constexpr (!Causal)
                    f(subtile<piece::rows, columns>(x.imag, at, 0), coord{batch + 1, first.d, first.r, part});
            }
    }

    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        for (int c = 0; c < consumers; c++) {
            const coord first = find(t, step, c, g);
            each_piece(in.u[c], first, [&](auto& to, coord at) { load_async(to, g.u, zero_beyond(g.u, at), full); });
            for (int s = 0; s < signals; s++) {
                tile& to = in.spectrum[c];
                load_async(subtile<rows, columns>(to.real, s, 0), g.spectrum, coord{first.d, 0, 0, first.r}, full);
                load_async(subtile<rows, columns>(to.imag, s, 0), g.spectrum, coord{first.d, 1, 0, first.r}, full);
            }
        }
    }

    kittens_device static void store(const output& out, const task& t, int step, const globals& g) {
        for (int c = 0; c < consumers; c++)
            each_piece(const_cast<tile&>(out.y[c]), find(t, step, c, g), [&](auto& from, coord at) {
                if (at.b < g.y.batch() && at.d < g.y.depth()) store_async(g.y, from, at);
            });
    }

    template <typename Stream> kittens_device static void consume(Stream& stream, const task& t, const globals& g) {
        workspace& own = stream.own();
        output& out = stream.ask();
        if (warp_index() == 0) load_tables(own, out, g);
        factors f;
        if constexpr (split) {
            load_turn(f.turn.real, g, turn_row);
            load_turn(f.turn.imag, g, turn_row + 2);
        }
        sync_named(everyone, consumers * warpgroup_warps);
        wait(own.loaded, 0);
        crt_bf<16, columns> twiddle;
        if constexpr (together) {
            warpgroup::load_halves(twiddle, out.y[warpgroup_index()]);
            load_left(f.left, g, warpgroup_index());
            load_left(f.other, g, 1 - warpgroup_index());
        } else if constexpr (consumers == 1) {
            load_left(f.left, g, 0);
        } else {
            rt_bf<16, columns> left;
            warpgroup::load(left, out.y[0].real);
            warpgroup::load_halves(twiddle, out.y[1]);
            part(f.left.real, left, 0, 0), part(f.left.imag, left, 0, 1);
        }
        if constexpr (consumers > 1) copy(f.twiddle, twiddle);
        if (warpgroup_index() == 1) pass_turn();
        for (int step = 0; step < t.steps; step++) convolve(stream, f, own);
        if (warpgroup_index() == 0) in_turn();  // the one that is left over
    }
    // A consumer begins a step when the other has its first product: in lock step both would wait for the tensor cores,
    // and then both compute.
    kittens_device static void in_turn() {
        if constexpr (alternate) sync_named(turns + warpgroup_index(), consumers * warpgroup_warps);
    }
    kittens_device static void pass_turn() {
        if constexpr (alternate) arrive_named(turns + 1 - warpgroup_index(), consumers * warpgroup_warps);
    }
    // Of those that multiply by one another's W'.
    kittens_device static void meet(int me) {
        if constexpr (together) sync_named(everyone, consumers * warpgroup_warps);
        else warpgroup::sync(own_group + me);
    }
    // What is kept in registers comes by way of the first result, before any is written. Of a transform by both that is
    // T of either; there is no room for F.
    kittens_device static void load_tables(workspace& own, output& out, const globals& g) {
        init(own.loaded, 1);
        fence_init();
        const loading phase(own.loaded,
                            6 * block::bytes + (alternate ? 3 : 2 * consumers) * st_bf<tile_rows, columns>::bytes);
        const auto load_twiddle = [&](tile& to, int which) {
            load_async(to.real, g.constants, coord{0, which, twiddle_tile, 0}, own.loaded);
            load_async(to.imag, g.constants, coord{0, which, twiddle_tile + 1, 0}, own.loaded);
        };
        if constexpr (together) load_twiddle(out.y[0], 0);
        else if constexpr (alternate) load_async(out.y[0].real, g.constants, coord{0, 0, 0, 0}, own.loaded);
        if constexpr (consumers == 1) load_twiddle(own.twiddle, 0);
        else load_twiddle(out.y[1], together);
        for (int i = 0; i < 2; i++) {
            load_async(own.even[i], g.constants, coord{0, 0, even_block + i, 0}, own.loaded);
            load_async(own.odd[i], g.constants, coord{0, 0, odd_block + i, 0}, own.loaded);
            load_async(own.back_odd[i], g.constants, coord{0, 0, back_odd_block + i, 0}, own.loaded);
        }
    }
    kittens_device static void load_left(left_factor& left, const globals& g, int which) {
        kittens::load(left.real, g.constants, coord{0, which, warp_in_group(), 0});
        kittens::load(left.imag, g.constants, coord{0, which, warp_in_group(), 1});
    }
    // w in fp32 is the sum of two bf16.
    template <typename Vec> kittens_device static void load_turn(Vec& turn, const globals& g, int row) {
        const int which = together ? warpgroup_index() : 0;
        Vec rest;
        kittens::load(turn, g.constants, coord{0, which, row, warp_in_group()});
        kittens::load(rest, g.constants, coord{0, which, row + 1, warp_in_group()});
        add(turn, turn, rest);
    }

    kittens_device static auto& half(st_bf<tile_rows, columns>& of, int i) {
        return subtile<half_rows, columns>(of, i, 0);
    }
    // (upper, lower) = left times the upper and the lower half of a tile, half of a complex product each; or plus that.
    template <typename Acc>
    kittens_device static void multiply_halves(Acc& upper, Acc& lower, const left_factor& left,
                                               st_bf<tile_rows, columns>& real, st_bf<tile_rows, columns>& imag,
                                               int accumulate = 0) {
        warpgroup::mma_AB(upper, left.real, half(real, 0), accumulate);
        warpgroup::mma_AB(upper, left.imag, half(imag, 0));
        warpgroup::mma_AB(lower, left.real, half(real, 1), accumulate);
        warpgroup::mma_AB(lower, left.imag, half(imag, 1));
    }
    // Of a transform by both, one has the even frequencies, of the sum of the points' halves, the other the odd ones,
    // of the difference; and one has the first half of the results, the sum, the other the second, the difference.
    kittens_device static void negate_of_odd(left_factor& left) {
        if (warpgroup_index() == 1) neg(left.real, left.real), neg(left.imag, left.imag);
    }

    // x T, or x conj(T).
    template <conjugate Which = conjugate::none>
    kittens_device static void mul_twiddle(crt_fl<16, columns>& result, const crt_fl<16, columns>& x, const factors& f,
                                           const workspace& own) {
        if constexpr (consumers == 1) {
            crt_bf<16, columns> twiddle;
            warpgroup::load_halves(twiddle, own.twiddle);
            mul<Which>(result, x, twiddle);
        } else {
            mul<Which>(result, x, f.twiddle);
        }
    }

    template <typename Stream>
    kittens_device static void convolve(Stream& stream, const factors& f, const workspace& own) {
        const int me = warpgroup_index();
        crt_bf<16, columns> operand, spectrum;
        left_factor left, right;
        input& in = stream.take();
        crt_fl<16, columns> y, turned;
        in_turn();
        if constexpr (Causal) {
            warpgroup::mm_AB(y.real, f.left.real, half(in.u[me].real, 0));
            warpgroup::mm_AB(y.imag, f.left.real, half(in.u[me].real, 1));
        } else if constexpr (together) {
            left = f.left;
            negate_of_odd(left);
            multiply_halves(y.real, y.imag, f.left, in.u[0].real, in.u[0].imag);
            multiply_halves(y.real, y.imag, left, in.u[1].real, in.u[1].imag, 1);
        } else {
            multiply_halves(y.real, y.imag, f.left, in.u[me].real, in.u[me].imag);
        }
        warpgroup::mma_wait(y.real, y.imag);
        pass_turn();
        exchange_rows(y.real, y.imag);
        if constexpr (split) butterfly_rows(y, f.turn);
        mul_twiddle(turned, y, f, own);
        butterfly_cols(turned);
        copy(operand, turned);
        part(left, operand, 0, 0), part(right, operand, 0, 1);

        crt_fl<16, columns> z;
        warpgroup::mm_AB(z.real, left.real, own.even[0], left.imag, own.even[1]);
        warpgroup::mm_AB(z.imag, right.real, own.odd[0], right.imag, own.odd[1]);
        if constexpr (split && consumers == 1)  // its addresses are made here: no register is free to keep them
            warpgroup::load_halves(spectrum, unhoisted(in.spectrum[me]));
        else if constexpr (!together) warpgroup::load_halves(spectrum, in.spectrum[me]);
        warpgroup::mma_wait(z.real, z.imag);
        if constexpr (together) warpgroup::load_halves(spectrum, in.spectrum[me]);
        stream.release();
        exchange_cols(z.real, z.imag);
        mul(operand, z, spectrum);
        part(left, operand, 0, 0), part(right, operand, 0, 1);

        // Conjugates: with the parts of the operand exchanged, those of the result are.
        crt_fl<16, columns> w, turned_back;
        warpgroup::mm_AB(w.imag, left.imag, own.even[0], left.real, own.even[1]);
        warpgroup::mm_AB(w.real, right.imag, own.back_odd[0], right.real, own.back_odd[1]);
        warpgroup::mma_wait(w.real, w.imag);
        exchange_cols(w.imag, w.real);
        butterfly_cols(w);
        mul_twiddle<conjugate::second>(turned_back, w, f, own);
        if constexpr (split) butterfly_rows_back(turned_back, f.turn);
        copy(operand, turned_back);

        crt_fl<16, columns> result;
        output& out = stream.ask();
        tile& mine = out.y[me];
        warpgroup::store_halves(mine, operand);
        fence_async();
        meet(me);
        if constexpr (together) {
            left = f.left;
            negate_of_odd(left);
            tile& other = out.y[1 - me];
            multiply_halves(result.imag, result.real, left, mine.imag, mine.real);
            multiply_halves(result.imag, result.real, f.other, other.imag, other.real, 1);
        } else {
            multiply_halves(result.imag, result.real, f.left, mine.imag, mine.real);
        }
        warpgroup::mma_wait(result.real, result.imag);
        exchange_rows(result.imag, result.real);
        meet(me);  // all have read W' before the result takes its place
        if constexpr (Causal) warpgroup::store_halves(mine.real, result.real);
        else warpgroup::store_halves(mine, result);
        stream.hand_over();
    }
};

}  // namespace tk::fft_conv
