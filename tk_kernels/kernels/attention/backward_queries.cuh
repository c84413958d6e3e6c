// Attention, backward, deterministic: dQ = scale dS K by a pass of its own, without atomic sums. A block owns 128 rows
// of queries, 64 a consumer warpgroup, and walks over the keys as the forward kernel does; P comes from the lse that is
// known.
//
// shared memory  Q, dO 64 KB, ring of 3 (K, V) 96 KB, dQ 32 KB: 192 KB at dim 128 (64 keys a step); 128 KB at dim 64
//                (128)
#pragma once

#include "backward_rows.cuh"
#include "lcf_stream.cuh"

namespace tk::attention {

template <int Dim> struct queries_kernel {
    static constexpr int rows = 128, keys = 8192 / Dim;
    static constexpr int consumers = 2, consumer_registers = limits::consumer_registers(24), stages = 3;
    static constexpr bool starts_early = true;  // behind keys_kernel, whose results it does not need, and rows_kernel

    using strip = st_bf<16, Dim>;
    struct tile {
        st_bf<keys, Dim> k, v;
    };
    struct resident {
        st_bf<rows, Dim> q, dout;
    };
    using output = per_warp<strip>;
    struct globals : operands<Dim, rows, keys> {
        heads_of<strip> dq;
        float scale;
        seen_keys visible;
        row_grid grid;
        int group, tasks;
    };
    struct task {
        int batch, head, head_kv, row, first, steps;  // first tile of keys and their number
    };

    kittens_device static void prefetch(const globals& g) { prefetch_maps(g.q, g.dout, g.k, g.v); }

    // The last rows see the most keys: they come first.
    kittens_device static bool get_task(task& t, const globals& g, int i) {
        const int index = block_index() + i * block_count();
        if (index >= g.tasks) return false;
        const auto [batch, head, block] = g.grid.at(index);
        t = {batch, head, head / g.group, (g.grid.row_blocks.value - 1 - block) * rows};
        const int end = t.row + rows < g.q.rows() ? t.row + rows : g.q.rows();
        t.first = g.visible.first_tile(t.row, keys);
        t.steps = g.visible.tiles_before(end, keys) - t.first;
        return true;
    }

    kittens_device static void load_resident(resident& in, const task& t, semaphore& full, const globals& g) {
        load_async(in.q, g.q, element_coord{t.batch, t.head, t.row, 0}, full);
        load_async(in.dout, g.dout, element_coord{t.batch, t.head, t.row, 0}, full);
    }

    kittens_device static void load(tile& in, const task& t, int step, semaphore& full, const globals& g) {
        load_async(in.k, g.k, coord{t.batch, t.head_kv, t.first + step, 0}, full);
        load_async(in.v, g.v, coord{t.batch, t.head_kv, t.first + step, 0}, full);
    }

    template <typename Stream>
    kittens_device static void consume(Stream& s, output& out, const task& t, const globals& g) {
        rt_fl<16, keys> p, ds;
        rt_bf<16, keys> ds_bf;
        rt_fl<16, Dim> dq;
        rows_vec lse, delta;
        resident& held = s.hold();
        auto& q = subtile<64, Dim>(held.q, s.consumer, 0);
        auto& dout = subtile<64, Dim>(held.dout, s.consumer, 0);
        const float scale = g.scale * log2_e;
        const int row = t.row + 64 * s.consumer + 16 * warp_in_group();
        wait_previous_kernel();
        kittens::load(lse, g.lse, element_coord{t.batch, t.head, 0, row});
        kittens::load(delta, g.delta, element_coord{t.batch, t.head, 0, row});

        zero(dq);
        const auto weights = [&](tile& in, int step) {
            warpgroup::mm_ABt(ds, dout, in.v);
            warpgroup::mma_wait<1>(p);
            map_rows(p, p, lse, [=](float x, float l) { return math::exp2(x * scale - l); });
            g.visible.hide(p, row, (t.first + step) * keys, 0.f);
            warpgroup::mma_wait(ds);
            sub_row(ds, ds, delta);
            mul(ds, ds, p);
            copy(ds_bf, ds);
        };
        if (t.steps > 0) {
            tile* in = &s.take();
            warpgroup::mm_ABt(p, q, in->k);
            weights(*in, 0);
            for (int step = 1; step < t.steps; step++) {
                warpgroup::mma_AB(dq, ds_bf, in->k);
                in = &s.take();
                warpgroup::mm_ABt(p, q, in->k);
                warpgroup::mma_wait<1>(dq);
                s.release();
                weights(*in, step);
            }
            warpgroup::mma_AB(dq, ds_bf, in->k);
            warpgroup::mma_wait(dq);
            s.release();
        }
        s.release_held();
        mul(dq, dq, g.scale);
        store_through(g.dq, dq, out.own(), element_coord{t.batch, t.head, row, 0});
    }
};

}  // namespace tk::attention
