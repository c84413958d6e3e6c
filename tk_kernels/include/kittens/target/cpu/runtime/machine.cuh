// The state of what runs together, a cluster or a whole grid: blocks, warps, semaphores, barriers, and effects that
// have not landed yet.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "kittens/target/cpu/runtime/boxes.cuh"
#include "kittens/target/cpu/runtime/claims.cuh"
#include "kittens/target/cpu/runtime/clock.cuh"
#include "kittens/target/cpu/runtime/counting.cuh"
#include "kittens/target/cpu/runtime/fiber.cuh"
#include "kittens/target/cpu/runtime/global_reads.cuh"
#include "kittens/target/cpu/runtime/global_shadow.cuh"
#include "kittens/target/cpu/runtime/global_writes.cuh"
#include "kittens/target/cpu/runtime/random.cuh"
#include "kittens/target/cpu/runtime/report.cuh"
#include "kittens/target/cpu/runtime/shared_memory.cuh"

namespace kittens::cpu {

class cluster;
struct warp;

// An mbarrier. `bytes` is what was announced in this phase and has not landed.
struct semaphore_state {
    size_t offset = 0;
    int block = 0;  // place among the blocks that run together
    int expected = 0, pending = 0;
    int64_t bytes = 0, announced = 0;
    int in_flight = 0;  // loads that will still complete bytes here
    tick completed = 0;
    int agent = 0;
    action made_by;
    int made_by_warp = 0;
    tick made_at = 0, fenced_at = 0;
    clock gathered, published;
    std::vector<action> arrived;
    std::vector<warp*> waiting;
    // Waits that have passed: a later phase may only complete after them, else their parity could have meant either.
    struct passed {
        int warp;
        tick when, target;
        action who;
    };
    std::vector<passed> waited;
};

// A block's, a cluster's or a named barrier.
struct barrier_state {
    int expected = 0;  // warps; 0: nobody has come yet
    clock gathered;
    std::vector<action> arrived;
    std::vector<int> warps;
    std::vector<warp*> waiting;
    // Kept from one meeting to the next: its count of meetings as an agent, and the last one each warp came to.
    int agent = -1;
    tick meetings = 0;
    std::vector<tick> last_came;
};

// Something asynchronous that has been started and has not happened yet.
struct effect {
    enum class kind { load, store, arrival, copy, signal };
    kind what;
    action who;
    box where = {};                   // load, store: in global memory
    unsigned char* memory = nullptr;  // load, store: in shared memory
    semaphore_state* done = nullptr;  // load: completes bytes here; arrival: arrives here
    int agent = 0;                    // load, store, copy: the chain it is part of, and its number there
    tick when = 0;
    bool add = false;                      // store: added to what is there
    bool is_read = false;                  // store: its source was read, into
    std::vector<unsigned char> held = {};  // this
    clock carried = {};                    // arrival, signal: what its warp knew; load: that earlier kernels have ended
    counter_state* raised = nullptr;       // signal: this
    int amount = 0;                        // signal: by so much
};

// A multiply that a warp has issued, its share of the warpgroup's.
struct multiply {
    void (*run)(const multiply&);
    void* d;
    const void *a, *b;
    int accumulate, quarter;
    tick when;
};

// Registers of a tile that a multiply in flight reads or writes.
struct register_claim {
    const unsigned char *low, *high;
    bool write;
    tick when;
    action who;
};

// What a warp stands at, for the deadlock report.
struct waiting_for {
    action who;
    semaphore_state* semaphore = nullptr;
    tick phase = 0;  // number of the phase that must complete
    barrier_state* barrier = nullptr;
    std::string barrier_name;
    counter_state* counted = nullptr;
    int at_least = 0;
};

struct block {
    int number = 0;  // in the grid
    int rank = 0;    // in the cluster
    int place = 0;   // among the blocks that run together
    int gpu = -1;    // rank of its GPU, where there are several
    int running = 0;
    shared_memory memory;
    std::deque<semaphore_state> semaphores;
    barrier_state barriers[16];
    // Newest access to this block's memory or semaphores by each chain outside its own warps' ordinary work.
    struct inbound {
        int agent;
        tick when;
        action who;
        const char* doing;
    };
    std::vector<inbound> inbounds;
    // Per warpgroup, the multiplies that its first warp to get there has issued: the others must issue the same.
    std::vector<std::vector<action>> issued;
    clock last;  // everything its warps knew when they ended
};

struct warp {
    int id = 0;     // as an agent
    int index = 0;  // in the block
    block* home = nullptr;
    cluster* machine = nullptr;
    std::unique_ptr<fiber> stack;
    clock before;
    tick now = 1;
    uint64_t preference = 0;
    bool ended = false;
    waiting_for waits;
    int multiply_agent = 0, store_agent = 0, copy_agent = 0;
    int written_agent = 0;                        // its bulk stores again: what they wrote is there
    tick multiplies = 0, stores = 0, copies = 0;  // issued
    tick stores_read = 0;                         // known to have read their source
    action last_store, last_copy;
    std::vector<tick> copy_groups;  // of each that was committed, the newest copy
    std::deque<multiply> queue;
    std::vector<register_claim> claims;

    action doing(const char* op, site at) const { return {op, at, home->number, index, home->gpu}; }
};

// The warp whose fiber runs on this host thread.
inline constinit thread_local warp* current_warp = nullptr;

inline warp& this_warp() {
    if (current_warp == nullptr)
        fail("a kittens operation was called outside a kernel: device code runs under launch()");
    return *current_warp;
}

// Thrown into the other fibers of a launch that failed, so that their stacks unwind.
struct abandoned {};

}  // namespace kittens::cpu
