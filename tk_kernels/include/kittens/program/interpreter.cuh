// The blocks of a launch carry out a program whose instructions stream pages of a tensor through shared memory.
//
//   loader     one warp: fills a ring of pages and runs ahead over the ends of instructions; awaits nothing that other
//              blocks do
//   consumers  await what an instruction begins with, then use its pages; what they leave goes on in parts
//   storer     one warp: writes parts to global memory and signals at an instruction's end, so that consumers need not
//              wait for that
//
// Pages are freed in the order in which they are used: a ring is all the allocation that there is.
//
// The memory answers in turn: whatever two blocks hand over waits behind the pages that are under way. So the ring is
// long, for a lead, and `in_flight` of it are asked for at once: just as many as keep the memory at work.
#pragma once

#include "kittens/program/queue.cuh"

namespace kittens {

// Kernel gives
//   types      globals, with `queues`, `capacity` and `ready`, the counters; instruction (queue.cuh), whose `round` is
//              0 at first; page and part, which lie in shared memory; keeping, which each warp makes of (memory,
//              globals): what a block keeps in shared memory, and a consumer in registers
//   constants  consumers (warps); pages, parts (stages of the rings); kept_bytes (that `keeping` takes of memory)
//   void prefetch(globals)                        the maps of its tensors, by the loader
//   int  rounds(globals)                          how often the queue is carried out; what awaits what is the kernel's
//   int  in_flight(instruction, globals)          how many pages at most are asked for and have not come
//   int  pages_of(instruction, globals)           the same number for all roles
//   bool leaves(instruction, n, globals)          whether the n-th page is the last of a part
//   void load(page, instruction, n, full, globals)        loader
//   void begin(keeping, team, instruction, globals)      consumers: await, and what all pages are used with
//   void use(keeping, page, instruction, n, globals)      consumers: has read the page when it returns
//   void leave(part, keeping, instruction, n, globals)    consumers: a part, behind its last page
//   void store(part, keeping, instruction, n, globals)    storer
//   void end(keeping, instruction, globals)               storer: the signal
template <typename Kernel, typename Recorder = unrecorded> struct interpreter {
    static constexpr int consumers = Kernel::consumers, warps = consumers + 2;
    static constexpr int cluster_blocks = 1, blocks_per_sm = 1;
    using globals = typename Kernel::globals;
    using instruction = typename Kernel::instruction;
    using page_ring = ring<typename Kernel::page, Kernel::pages>;
    using part_ring = ring<typename Kernel::part, Kernel::parts>;
    using queue = instruction_queue<instruction, decltype(globals::queues)>;
    using team = kittens::team<consumers, 1>;
    static constexpr int roles = 3;
    static constexpr int shared_bytes = Kernel::pages * int(sizeof(typename Kernel::page)) +
                                        Kernel::parts * int(sizeof(typename Kernel::part)) + Kernel::kept_bytes +
                                        (page_ring::semaphores + part_ring::semaphores + 2) * int(sizeof(semaphore));

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        page_ring pages;
        part_ring parts;
        pages.allocate_stages(memory, "pages");
        parts.allocate_stages(memory, "parts");
        typename Kernel::keeping own(memory, g);
        pages.allocate_semaphores(memory, "page full", "page empty");
        parts.allocate_semaphores(memory, "part full", "part empty");
        semaphore* over = memory.allocate<semaphore>("over", 2);  // for the consumers, for the storer
        const bool loader = warp_index() == consumers;
        if (loader) {
            Kernel::prefetch(g);
            pages.init(1, consumers);
            parts.init(consumers, 1);
            init(over, 2, 1);
        }
        queue instructions(g.queues, g.capacity);
        start_pipeline<warps, 1>(loader);
        if (loader) {
            load(pages, instructions, g);
            if (instructions.n > 0) wait(over[1], 0);
            retire_behind(over[0], instructions, g.ready);
        } else if (warp_index() < consumers) {
            consume(own, pages, parts, over[0], instructions, g);
        } else {
            store(own, parts, over[1], instructions, g);
        }
    }

    // Carries out the queue, round by round; its last instruction is the one of the last round.
    template <typename CarryOut>
    kittens_device static void walk(queue& instructions, Recorder& record, const globals& g,
                                    const CarryOut& carry_out) {
        instructions.walk(record, [&](instruction& t) {
            if (t.last && t.round + 1 < Kernel::rounds(g)) {
                t.last = false;
                instructions.restart();
            }
            carry_out(t);
            if (instructions.n == 0) t.round++;
        });
    }

    kittens_device static void load(page_ring& pages, queue& instructions, const globals& g) {
        typename page_ring::position next, coming;
        int flying = 0;
        Recorder record(g, 0, [] { return true; });
        walk(instructions, record, g, [&](const instruction& t) {
            const int count = Kernel::pages_of(t, g), most = Kernel::in_flight(t, g);
#pragma unroll 1
            for (int n = 0; n < count; n++, next.advance()) {
                for (; flying >= most; flying--, coming.advance()) pages.take(coming);
                const auto into = pages.fill(next);
                Kernel::load(into.stage, t, n, into.full, g);
                flying++;
            }
        });
    }

    kittens_device static void consume(typename Kernel::keeping& own, page_ring& pages, part_ring& parts,
                                       semaphore& over, queue& instructions, const globals& g) {
        const team all{over, warp_index() == 0};
        ring_reader<page_ring> in{pages};
        typename part_ring::position out;
        Recorder record(g, 1, [] { return warp_index() == 0; });
        walk(instructions, record, g, [&](const instruction& t) {
            const int count = Kernel::pages_of(t, g);
            Kernel::begin(own, all, t, g);
            record.waited();
#pragma unroll 1
            for (int n = 0; n < count; n++) {
                Kernel::use(own, in.take(), t, n, g);
                in.release();
                if (!Kernel::leaves(t, n, g)) continue;
                Kernel::leave(parts.ask(out), own, t, n, g);
                parts.hand_over(out);
                out.advance();
            }
            all.ends(t.last);
        });
    }

    kittens_device static void store(typename Kernel::keeping& own, part_ring& parts, semaphore& over,
                                     queue& instructions, const globals& g) {
        ring_reader<part_ring> in{parts};
        Recorder record(g, 2, [] { return true; });
        walk(instructions, record, g, [&](const instruction& t) {
            const int count = Kernel::pages_of(t, g);
#pragma unroll 1
            for (int n = 0; n < count; n++) {
                if (!Kernel::leaves(t, n, g)) continue;
                auto& part = in.take();
                record.waited();
                Kernel::store(part, own, t, n, g);
                in.release();
            }
            Kernel::end(own, t, g);
            if (t.last) arrive(over);
        });
    }
};

}  // namespace kittens
