// Products one behind the other, by the interpreter: x of layer n + 1 is W of layer n times x of layer n, for 16 rows
// of x at once. An instruction is a run of blocks of 16 rows of W.
#pragma once

#include "kittens.cuh"

#include "kittens/program/check.h"

namespace products {

using namespace kittens;

// Of an instruction, by index; `signals` tells 1 where this layer's counter is raised.
namespace field {
constexpr int layer = 1, first = 2, count = 3, awaited = 4, signals = 5;
}

inline program::exchange exchange_of(const std::int32_t* one) {
    const int layer = one[field::layer];
    return {.awaits = one[field::awaited] > 0 ? layer - 1 : -1,
            .at_least = one[field::awaited],
            .signals = one[field::signals] > 0 ? layer : -1};
}

struct instruction {
    int opcode, layer, first, count, awaited, signals, round = 0;
    bool last;

    template <typename Row> kittens_device void read(Row& row) {
        opcode = row.brought(program::field::opcode), layer = row.brought(field::layer);
        first = row.brought(field::first), count = row.brought(field::count);
        awaited = row.brought(field::awaited), signals = row.brought(field::signals);
    }
};

template <typename Recorder = unrecorded> struct kernel {
    static constexpr int consumers = 2, pages = 4, parts = 2, size = 256;
    using page = st_bf<16, 128>;
    using input = st_bf<16, size>;
    using instruction = products::instruction;
    static constexpr int steps = size / page::cols, kept_bytes = int(sizeof(input));
    struct part {
        st_fl<16, 16> sums[consumers];
    };
    struct globals : Recorder::where {
        gl<bf16, 1, dynamic, size, size, page> weights;
        exchanged<gl<bf16, 1, dynamic, 16, size>> x;
        gl<const int, 1, 1, dynamic, dynamic> queues;
        counters ready;
        int capacity;
    };
    struct keeping {
        input& x;
        rt_fl<16, 16> sum;

        kittens_device keeping(shared_allocator& memory, const globals&) : x(*memory.allocate<input>("x")) {}
    };

    kittens_device static void prefetch(const globals& g) { prefetch_maps(g.weights); }
    kittens_device static int rounds(const globals&) { return 1; }
    kittens_device static int in_flight(const instruction& t, const globals&) { return 2 + t.layer % 2; }
    kittens_device static int pages_of(const instruction& t, const globals&) { return steps * t.count; }
    kittens_device static bool leaves(const instruction&, int n, const globals&) { return n % steps == steps - 1; }

    kittens_device static void load(page& into, const instruction& t, int n, semaphore& full, const globals& g) {
        load_async(into, g.weights, coord{0, t.layer, t.first + n / steps, n % steps}, full);
    }
    template <typename Team>
    kittens_device static void begin(keeping& own, const Team& all, const instruction& t, const globals& g) {
        if (t.awaited > 0) all.await_together(g.ready[t.layer - 1], t.awaited, false);
        group<consumers>::load(own.x, g.x, coord{0, t.layer, 0, 0});
        all.sync();
        zero(own.sum);
    }
    kittens_device static void use(keeping& own, page& in, const instruction&, int n, const globals&) {
        constexpr int columns = page::cols / consumers;
        rt_bf<16, columns> x, w;
        kittens::load(x, subtile<16, columns>(own.x, 0, consumers * (n % steps) + warp_index()));
        kittens::load(w, subtile<16, columns>(in, 0, warp_index()));
        mma_ABt(own.sum, x, w);
    }
    kittens_device static void leave(part& out, keeping& own, const instruction&, int, const globals&) {
        kittens::store(out.sums[warp_index()], own.sum);
        zero(own.sum);
    }
    kittens_device static void store(part& left, keeping&, const instruction& t, int n, const globals& g) {
        rt_fl<16, 16> sum, other;
        kittens::load(sum, left.sums[0]);
        kittens::load(other, left.sums[1]);
        add(sum, sum, other);
        kittens::store(g.x, sum, element_coord{0, t.layer + 1, 0, 16 * (t.first + n / steps)});
    }
    kittens_device static void end(keeping&, const instruction& t, const globals& g) {
        if (t.signals > 0) signal(g.ready[t.layer]);
    }
};

}  // namespace products
