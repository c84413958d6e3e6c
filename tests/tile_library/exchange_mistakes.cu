// Blocks that hand data to one another, each program with one mistake. test_exchange.py says what each must be told.
// (And a grid of clusters, which not every target has.)
#include "exchange_programs.cuh"

namespace {

// A tile for a cluster, loaded by one of its blocks once another cluster has stored it.
struct resident_clusters : program<1> {
    static constexpr int cluster_blocks = 2;
    kittens_device static void run(const globals_t& g) {
        shared_allocator memory;
        tile& x = *memory.allocate<tile>("x");
        auto& full = *memory.allocate<semaphore>("full");
        init(full, 1);
        sync_start<2>();
        rt_bf<64, 64> y;
        fill(y, 2.f);
        if (block_index() == 0) {
            store(g.mail, y, tile_of(0));
            signal(g.ready[0]);
        }
        expect_bytes(full, tile::bytes);
        if (cluster_rank() == 0) {
            await(g.ready[0], 1);
            load_async(x, g.mail, tile_of(0), full, 3);
        }
        wait(full, 0);
        load(y, x);
        store(g.out, y, tile_of(block_index()));
        sync_cluster();
        retire(g.ready);
    }
};

#define PASS(name) {"pass_" #name, start_resident<passing<pass::name>>}
#define ENGINE(name) {"engine_" #name, start_resident<by_engine<engine::name>>}
#define GATHER(name) {"gather_" #name, start_resident<gathering<gather::name>>}
#define RELAY(name) {"relay_" #name, start_resident<relays<relay::name>>}
#define STAGES(name) {"stages_" #name, start_resident<stages<staging::name>>}
#define MEETING(name) {"meeting_" #name, start_resident<meetings<meeting::name>>}
#define LAST(name) {"last_" #name, start_resident<lasts<last::name>>}
#define PLAIN(name) {"plain_" #name, start_plain<plain<plainly::name>>}
#define OTHER(name, ...) {#name, __VA_ARGS__}
const entry programs[] = {
    PASS(no_await),
    PASS(no_signal),
    PASS(no_barrier_before),
    PASS(no_barrier_after),
    PASS(wrong_counter),
    PASS(awaits_another),
    PASS(signals_first),
    PASS(undeclared_store),
    PASS(undeclared_load),
    PASS(not_retired),
    PASS(one_not_retired),
    PASS(retired_twice),
    PASS(retired_too_early),
    PASS(used_after),
    PASS(no_such_counter),
    PASS(nothing_awaited),
    PASS(nothing_signalled),
    PASS(overwritten),
    ENGINE(read_wait),
    ENGINE(wait_after),
    ENGINE(one_pending),
    ENGINE(other_warp),
    ENGINE(load_too_early),
    ENGINE(own_unfenced),
    GATHER(too_low),
    GATHER(too_high),
    GATHER(signals_twice),
    GATHER(by_two),
    GATHER(early),
    GATHER(added_too_low),
    GATHER(added_wrongly),
    RELAY(does_not_wait),
    RELAY(order),
    STAGES(not_awaited),
    STAGES(freed_too_early),
    STAGES(awaits_the_last),
    STAGES(full_not_awaited),
    MEETING(too_early),
    MEETING(no_second),
    MEETING(skipped),
    LAST(one_too_early),
    LAST(everybody),
    LAST(claimed),
    LAST(other_counters),
    LAST(no_barrier_before),
    LAST(no_barrier_after),
    LAST(not_retired),
    OTHER(last_engine_read_wait, start_resident<lasts_by_engine<last_engine::read_wait>>),
    PLAIN(load),
    PLAIN(load_async),
    PLAIN(copy),
    PLAIN(value),
    PLAIN(signal),
    PLAIN(await),
    PLAIN(retire),
    OTHER(queue_unordered, start_resident<resident_queue<tasks::unordered>>),
    OTHER(clusters, start_resident<resident_clusters>),
};

}  // namespace

extern "C" __attribute__((visibility("default"))) int run_program(const char* name, void* out, void* mail, void* sums,
                                                                  void* words, void* table, void* queue, char* message,
                                                                  int size) {
    return run_one(programs, name, out, mail, sums, words, table, queue, message, size);
}
