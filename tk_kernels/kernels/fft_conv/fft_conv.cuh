// Long convolution, y = Re ifft(fft(u) fft(k)), bf16, by the Monarch decomposition: the transform of N = 64 R points is done
// on a matrix of R rows and 64 columns (point 64 a + b at row a, column b) as two multiplies by small DFT matrices.
//
//   Y = F_R U     Y' = Y o T     Z = Y' F_64     frequency c + R d is then at row c, column d
//   Z' = Z o K    W = Z' conj(F_64)     W' = W o conj(T)     y = conj(F_R) W'         T(c, b) = exp(-2 pi i b c / N)
//
// Two sequences of one channel are the real and the imaginary part of one complex one, for the filter is real: nothing is
// computed in vain. A consumer warpgroup works on a tile of 64 x 64: 64 / R such pairs below one another, F_R then being
// block-diagonal. F_R multiplies from registers, where it stays for the whole launch, F_64 and T lie in
// shared memory; each result is rounded to bf16 in the registers where the next multiply wants it. Only W' changes hands, for
// which the output's tile serves. One warp loads by TMA, one stores; a stage is the spectrum of a channel (its rows repeated
// for each pair) and a tile for each of two consumers.
//
// speed          not yet measured; README.md has what it should be
// shared memory  2 stages of 48 KB, 2 outputs of 32 KB, factors 48 KB: 208 KB
// registers      of 232 a thread: 64 sums, 32 operand, 32 F_R, 32 spectrum or T (under a multiply)
// any batch and number of channels; N = 1024, 2048 or 4096, or any multiple of 64 below, as if zeros followed
#pragma once

#include "fft_conv.h"
#include "kittens.cuh"

namespace tk::fft_conv {

using namespace kittens;

using tile = cst_bf<tile_rows, columns>;
using factors = gl<bf16, 3, 2, tile_rows, columns>;

template <int Rows> struct kernel {
    static constexpr int stages = 2, output_stages = 2, consumers = 2, consumer_registers = 232;
    static constexpr int pairs = tile_rows / Rows;                // of sequences, in a tile
    static constexpr int step_sequences = 2 * consumers * pairs;  // of one channel, in a step
    static constexpr int everyone = 1, own_group = 2;             // barriers: the consumers', and a warpgroup's own

    using piece = st_bf<Rows, columns>;  // what one TMA instruction moves
    using sequences = gl<bf16, dynamic, dynamic, dynamic, columns, piece>;
    struct globals {
        sequences u, y;
        gl<bf16, dynamic, 2, Rows, columns, piece> spectrum;
        factors constants;
        int groups;  // steps a channel
        int jobs;    // steps in all
    };
    struct input {
        tile u[consumers], spectrum;
    };
    struct output {
        tile y[consumers];
    };
    struct workspace {
        tile right, left, twiddle;
    };
    struct task {
        int first, steps;
    };

    // A block's only task is its share of the steps, those of a channel one after the other.
    kittens_device static bool get_task(task& t, const globals& g, int i) {
        const auto start = [&](int block) { return int(int64_t(g.jobs) * block / block_count()); };
        t.first = start(block_index());
        t.steps = start(block_index() + 1) - t.first;
        return i == 0;
    }

    kittens_device static auto& rows_of(st_bf<tile_rows, columns>& tile, int pair) {
        return subtile<Rows, columns>(tile, pair, 0);
    }

    kittens_device static void load(input& in, const task& t, int step, semaphore& full, const globals& g) {
        const int channel = (t.first + step) / g.groups, group = (t.first + step) % g.groups;
        for (int c = 0; c < consumers; c++)
            for (int p = 0; p < pairs; p++) {
                const int batch = group * step_sequences + 2 * (c * pairs + p);
                load_async(rows_of(in.u[c].real, p), g.u, coord{batch, channel, 0, 0}, full);
                load_async(rows_of(in.u[c].imag, p), g.u, coord{batch + 1, channel, 0, 0}, full);
            }
        for (int p = 0; p < pairs; p++) {
            load_async(rows_of(in.spectrum.real, p), g.spectrum, coord{channel, 0, 0, 0}, full);
            load_async(rows_of(in.spectrum.imag, p), g.spectrum, coord{channel, 1, 0, 0}, full);
        }
    }

    kittens_device static void store(const output& out, const task& t, int step, const globals& g) {
        const int channel = (t.first + step) / g.groups, group = (t.first + step) % g.groups;
        for (int c = 0; c < consumers; c++)
            for (int p = 0; p < pairs; p++) {
                const int batch = group * step_sequences + 2 * (c * pairs + p);
                auto& y = const_cast<tile&>(out.y[c]);
                if (batch < g.y.batch()) store_async(g.y, rows_of(y.real, p), coord{batch, channel, 0, 0});
                if (batch + 1 < g.y.batch()) store_async(g.y, rows_of(y.imag, p), coord{batch + 1, channel, 0, 0});
            }
    }

    kittens_device static void load_factor(tile& dst, const globals& g, int which) {
        using all = group<consumers * warpgroup_warps>;
        all::load(dst.real, g.constants, coord{which, 0, 0, 0});
        all::load(dst.imag, g.constants, coord{which, 1, 0, 0});
    }

    template <typename Stream> kittens_device static void consume(Stream& stream, const task& t, const globals& g) {
        workspace& own = stream.own();
        load_factor(own.right, g, 0);
        load_factor(own.left, g, 1);
        load_factor(own.twiddle, g, 2);
        fence_async();
        sync_named(everyone, consumers * warpgroup_warps);
        crt_bf<16, columns> left;
        warpgroup::load(left, own.left);
        for (int step = 0; step < t.steps; step++) convolve(stream, left, own.twiddle, own.right);
    }

    // The factors are those of the inverse transform, exp(+ i ...): the forward one takes their conjugates.
    template <typename Stream, typename Factor>
    kittens_device static void convolve(Stream& stream, const Factor& left, const tile& twiddle, const tile& right) {
        const int me = warpgroup_index();
        crt_fl<16, columns> sums;
        crt_bf<16, columns> operand, factor;
        const input& in = stream.take();
        warpgroup::mm_AB<conjugate::first>(sums, left, in.u[me]);
        warpgroup::load(factor, twiddle);
        warpgroup::mma_wait(sums.real, sums.imag);
        mul<conjugate::second>(operand, sums, factor);

        warpgroup::mm_AB<conjugate::second>(sums, operand, right);
        warpgroup::load(factor, in.spectrum);
        warpgroup::mma_wait(sums.real, sums.imag);
        stream.release();
        mul(operand, sums, factor);

        warpgroup::mm_AB(sums, operand, right);
        warpgroup::load(factor, twiddle);
        warpgroup::mma_wait(sums.real, sums.imag);
        mul(operand, sums, factor);

        tile& y = stream.ask().y[me];
        warpgroup::store(y, operand);
        fence_async();
        warpgroup::sync(own_group + me);
        warpgroup::mm_AB(sums, left, y);
        warpgroup::mma_wait(sums.real, sums.imag);
        warpgroup::sync(own_group + me);  // all have read W' before the result takes its place
        warpgroup::store(y, sums);
        stream.hand_over();
    }
};

}  // namespace tk::fft_conv
