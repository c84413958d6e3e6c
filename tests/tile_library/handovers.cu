// Blocks in a ring hand tiles to one another, as often as is asked for, with a random delay at each step. Every tile is
// checked: its round and its block are in all of its numbers. Odd rounds go through the copy engine.
#include "guarded.h"
#include "kittens.cuh"

using namespace kittens;

namespace {

using tile = st_bf<32, 64>;
using rows_of_16 = rt_bf<16, 64>;

struct ring_of_blocks {
    static constexpr int warps = 2, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int shared_bytes = int(sizeof(tile) + sizeof(semaphore)) + 1024;
    struct globals {
        exchanged<gl<bf16, 1, dynamic, dynamic, dynamic, tile>> mail;  // (block and parity of the round, row, col)
        gl<float, 1, 1, dynamic, dynamic> wrong;                       // (block and row, col): numbers that were wrong
        counters ready;                                                // of each block: tiles sent, then tiles taken
        int rounds, seed;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile& x = *memory.allocate<tile>("x");
        auto& full = *memory.allocate<semaphore>("full");
        if (warp_index() == 0) init(full, 1);
        sync_start();
        const int blocks = block_count(), own = block_index(), before = (own + blocks - 1) % blocks;
        rt_fl<16, 64> bad;
        zero(bad);
        for (int round = 0; round < g.rounds; round++) {
            delay(g, round, 0);
            if (warp_index() == 0 && round >= 2) await(g.ready[blocks + own], round - 1);  // the place is free
            sync_block();
            send(g, x, own, round);
            if (warp_index() == 0) signal(g.ready[own]);
            delay(g, round, 1);
            if (warp_index() == 0) await(g.ready[before], round + 1);
            sync_block();
            take(g, x, full, before, round, bad);
            sync_block();
            if (warp_index() == 0) signal(g.ready[blocks + before]);
        }
        store(g.wrong, bad, element_coord{0, 0, 32 * own + 16 * warp_index(), 0});
        sync_block();
        if (warp_index() == 0) retire(g.ready);
    }

    kittens_device static float content(int block, int round) { return float((round * 7 + block * 3) % 251 + 1); }

    kittens_device static void send(const globals& g, tile& x, int block, int round) {
        rows_of_16 y;
        fill(y, content(block, round));
        if (round % 2 == 0) {
            store(g.mail, y, element_coord{0, 2 * block, 16 * warp_index(), 0});
            sync_block();
            return;
        }
        store(subtile<16, 64>(x, warp_index(), 0), y);
        fence_async();
        sync_block();
        if (warp_index() == 0) {
            store_async(g.mail, x, element_coord{0, 2 * block + 1, 0, 0});
            store_wait();
        }
        sync_block();
    }

    kittens_device static void take(const globals& g, tile& x, semaphore& full, int block, int round,
                                    rt_fl<16, 64>& bad) {
        rows_of_16 y;
        if (round % 2 == 0) {
            load(y, g.mail, element_coord{0, 2 * block, 16 * warp_index(), 0});
        } else {
            if (warp_index() == 0) {
                const loading phase(full, tile::bytes);
                load_async(x, g.mail, element_coord{0, 2 * block + 1, 0, 0}, full);
            }
            wait(full, round / 2 % 2);
            load(y, subtile<16, 64>(x, warp_index(), 0));
        }
        rt_fl<16, 64> got;
        copy(got, y);
        const float wanted = content(block, round);
        map(bad, bad, got, [=](float count, float number) { return count + (number == wanted ? 0.f : 1.f); });
    }

    // Up to 255 steps of nothing; half of the time none.
    kittens_device static void delay(const globals& g, int round, int place) {
        unsigned x = unsigned(g.seed) * 2654435761u + unsigned(round) * 40503u + unsigned(block_index()) * 9973u +
                     unsigned(place) * 77u + unsigned(warp_index());
        x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
        volatile int steps = x & 256 ? int(x & 255) : 0;
        while (steps > 0) steps = steps - 1;
    }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) int run_handovers(int blocks, int rounds, int seed, void* mail,
                                                                    void* wrong, void* words, char* message, int size) {
    return guarded(
        [&] {
            const ring_of_blocks::globals g{{{static_cast<bf16*>(mail), 1, 2 * blocks, 32, 64}},
                                            {static_cast<float*>(wrong), 1, 1, 32 * blocks, 64},
                                            {static_cast<int*>(words), 2 * blocks},
                                            rounds,
                                            seed};
            launch_resident<ring_of_blocks>({blocks, ring_of_blocks::shared_bytes}, nullptr, g);
        },
        message, size);
}
