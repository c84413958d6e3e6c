// A program of two operations. `add_up` adds tiles of a strip and leaves the sum in a slot; `combine` awaits the slots
// of a strip, adds them up in their order, scales that and writes it out.
#pragma once

#include "kittens.cuh"

#include "kittens/program/check.h"

namespace toy {

using namespace kittens;

namespace opcode {
constexpr int add_up = 1, combine = 2;
}
// Of an instruction, by index. add_up: the tiles [first, end), to `slot`, signals `counter`; combine: `slots` from
// `slot` on, of which the counter tells.
namespace field {
constexpr int strip = 1, first = 2, end = 3, slot = 4, slots = 5, counter = 6;
}

inline program::exchange exchange_of(const std::int32_t* one) {
    if (one[program::field::opcode] == opcode::add_up) return {.signals = one[field::counter]};
    return {.awaits = one[field::counter], .at_least = one[field::slots]};
}

struct instruction {
    int opcode, strip, first, end, slot, slots, counter;
    bool last;

    template <typename Row> kittens_device void read(Row& row) {
        opcode = row.brought(program::field::opcode), strip = row.brought(field::strip);
        first = row.brought(field::first), end = row.brought(field::end), slot = row.brought(field::slot);
        slots = row.brought(field::slots), counter = row.brought(field::counter);
    }
};

template <typename Recorder = unrecorded> struct kernel {
    static constexpr int warps = warpgroup_warps + 1, cluster_blocks = 1, blocks_per_sm = 1;
    using tile = st_bf<64, 64>;
    using inputs = ring<tile, 3>;
    using table = gl<const int, 1, 1, dynamic, dynamic>;
    using queue = instruction_queue<instruction, table>;
    using team = kittens::team<warpgroup_warps, 1>;
    static constexpr int shared_bytes = 3 * int(sizeof(tile)) + (inputs::semaphores + 1) * int(sizeof(semaphore));
    struct globals : Recorder::where {
        gl<bf16, 1, 1, dynamic, dynamic, tile> in;
        gl<bf16, 1, 1, 64, dynamic> out;                // a tile a strip
        exchanged<gl<float, 1, dynamic, 64, 64>> sums;  // a tile a slot
        table queues;
        counters ready;
        float scale;
        int capacity;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        inputs in;
        in.allocate_stages(memory, "ring");
        in.allocate_semaphores(memory, "full", "empty");
        auto& over = *memory.allocate<semaphore>("over");
        const bool loader = warp_index() == warpgroup_warps;
        if (loader) {
            prefetch_maps(g.in);
            in.init(1, warpgroup_warps);
            init(over, 1);
        }
        queue instructions(g.queues, g.capacity);
        start_pipeline<warps, 1>(loader);
        if (loader) {
            typename inputs::position at;
            Recorder record(g, 0, [] { return true; });
            instructions.walk(record, [&](const instruction& t) {
                for (int i = t.first; i < t.end; i++, at.advance()) {
                    const auto into = in.fill(at);
                    load_async(into.stage, g.in, coord{0, 0, i, t.strip}, into.full);
                }
            });
            retire_behind(over, instructions, g.ready);
        } else {
            ring_reader<inputs> tiles{in};
            const team all{over, warp_index() == 0};
            Recorder record(g, 1, [] { return warp_index() == 0; });
            instructions.walk(record, [&](const instruction& t) {
                if (t.opcode == opcode::add_up) add_up(tiles, all, t, g, record);
                else combine(all, t, g, record);
            });
        }
    }

    kittens_device static void add_up(ring_reader<inputs>& tiles, const team& all, const instruction& t,
                                      const globals& g, Recorder& record) {
        rt_fl<16, 64> total, x;
        zero(total);
        for (int i = t.first; i < t.end; i++) {
            warpgroup::load(x, tiles.take());
            record.waited();
            tiles.release();
            add(total, total, x);
        }
        store(g.sums, total, element_coord{0, t.slot, 16 * warp_index(), 0});
        all.signal_together(g.ready[t.counter]);
        all.ends(t.last);
    }

    kittens_device static void combine(const team& all, const instruction& t, const globals& g, Recorder& record) {
        rt_fl<16, 64> total, x;
        zero(total);
        all.await_together(g.ready[t.counter], t.slots, t.last);
        record.waited();
        for (int i = 0; i < t.slots; i++) {
            load(x, g.sums, element_coord{0, t.slot + i, 16 * warp_index(), 0});
            add(total, total, x);
        }
        mul(total, total, g.scale);
        store(g.out, total, element_coord{0, 0, 16 * warp_index(), 64 * t.strip});
    }
};

}  // namespace toy
