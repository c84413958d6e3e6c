// What runs together on one host thread, a cluster or all clusters of a grid whose blocks wait for one another:
// schedules its warps' fibers and lands asynchronous effects, in an order that the seed draws. Such grids of several
// ranks run side by side (world.cuh).
#pragma once

#include "kittens/target/cpu/runtime/deadlock.cuh"
#include "kittens/target/cpu/runtime/world_state.cuh"

namespace kittens::cpu {

class cluster {
  public:
    struct shape {
        int blocks_in_grid, cluster_blocks, warps;
        size_t shared_bytes;
        const global_writes* earlier = nullptr;  // of a kernel that starts early: what those before it wrote
        int clusters = 1;                        // that run together
        bool resident = false;                   // they are the grid's, and may wait for one another
        world_state* world = nullptr;            // where ranks' launches run side by side
        int rank = -1;

        int blocks() const { return clusters * cluster_blocks; }
    };

    cluster(const shape& s, void (*body)(const void*), const void* globals)
        : shape_(s), body_(body), globals_(globals) {
        const size_t bytes = shared_memory::spacing * s.blocks();
        void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        arena_ = static_cast<unsigned char*>(memory);
        blocks_ = std::vector<block>(s.blocks());
        warps_ = std::vector<warp>(s.blocks() * s.warps);
        cluster_barriers_ = std::vector<barrier_state>(s.clusters);
        for (warp& w : warps_) w.stack = std::make_unique<fiber>();
    }
    ~cluster() {
        if (running_ > 0) abandon();
        munmap(arena_, shared_memory::spacing * shape_.blocks());
    }
    cluster(const cluster&) = delete;
    cluster& operator=(const cluster&) = delete;

    // Runs cluster `number` of the grid to its end; throws what any of its warps threw.
    void run(int number, uint64_t seed) {
        start(number, seed);
        advance();
    }

    // Runs all clusters of the grid together.
    void run_resident(uint64_t seed) {
        claims claimed;
        start(0, seed, claimed);
        advance();
        claimed.check();
        counted_.check(shape_.blocks_in_grid);
    }

    // The same in parts, as a launch of a rank that comes after what `known` knows.
    void start_of_rank(uint64_t seed, claims& claimed, const clock& known) {
        start(0, seed, claimed);
        known_ = known;
        for (warp& w : warps_) w.before.join(known);
    }
    // At its end: what all that comes after it on its rank knows.
    clock end_of_rank() {
        claims_->check();
        counted_.check(shape_.blocks_in_grid);
        clock known;
        for (const block& b : blocks_) known.join(b.last);
        for (const int agent : own_agents_) known.see(agent, never);
        known.hand_over();
        return known;
    }
    // Whether nothing can happen here before another rank signals.
    bool blocked() const { return ready_.empty() && !anything_in_flight(); }
    std::string who_waits() const { return cpu::who_waits(blocks_, warps_, cluster_barriers_); }

    // The same in parts, for clusters that claim numbers from one counter.
    void start(int number, uint64_t seed, claims& shared) {
        start(number, seed);
        claims_ = &shared;
    }
    // Until its end, or until one of its warps lets the other clusters go first; true at its end.
    bool advance() {
        yields_ = false;
        try {
            schedule();
        } catch (...) {
            if (!failure_) failure_ = std::current_exception();
        }
        if (failure_) {
            abandon();
            std::rethrow_exception(std::exchange(failure_, nullptr));
        }
        return running_ == 0;
    }

    // --- called by a warp's fiber --------------------------------------------------------------------------------
    // A point where others may run, and effects may land.
    void pause(warp& w) {
        if (dice_.chance(temper_->switch_in_256)) {
            make_ready(w);
            leave(w);
        }
    }
    // Lets every other ready warp go first, and the other clusters, which claim from the counter that w is about to
    // claim from.
    void let_others_run(warp& w, const action& who) {
        if (claims_ == nullptr)
            fail(name(who), " claims a number in a launch whose blocks run one after another: launch_queue starts it");
        yields_ = !shape_.resident;
        make_ready(w);
        leave(w);
    }
    claims* claimed_numbers() { return claims_; }
    // Until somebody calls make_ready.
    void sleep(warp& w) { leave(w); }
    void make_ready(warp& w) { ready_.push_back(&w); }

    bool anything_in_flight() const { return !effects_.empty() || queued_multiplies_ > 0; }

    // --- asynchronous effects ------------------------------------------------------------------------------------
    void start(effect e) { effects_.push_back(std::move(e)); }

    void start(warp& w, multiply m) {
        w.queue.push_back(m);
        queued_multiplies_++;
    }
    void land_multiplies(warp& w, tick up_to) {
        while (!w.queue.empty() && w.queue.front().when <= up_to) {
            const multiply next = w.queue.front();
            w.queue.pop_front();
            queued_multiplies_--;
            next.run(next);
        }
    }
    void drop_multiplies(warp& w) {
        queued_multiplies_ -= w.queue.size();
        w.queue.clear();
    }
    // Stores of one chain up to a number: read their source; with `written`, also written.
    void land_stores(int agent, tick up_to, bool written) {
        for (size_t i = 0; i < effects_.size();) {
            effect& e = effects_[i];
            if (e.what == effect::kind::store && e.agent == agent && e.when <= up_to) {
                read_source(e);
                if (written) {
                    land(i);
                    continue;
                }
            }
            i++;
        }
    }

    // The copies of one chain up to a number.
    void land_copies(int agent, tick up_to) {
        for (size_t i = 0; i < effects_.size();) {
            const effect& e = effects_[i];
            if (e.what == effect::kind::copy && e.agent == agent && e.when <= up_to) land(i);
            else i++;
        }
    }

    // Agent for a load by w: a chain whose newest load happened before what w does now, or a new one.
    int load_chain(const warp& w, tick& when) {
        for (load_agent& chain : load_agents_)
            if (w.before.covers(chain.agent, chain.newest)) {
                when = ++chain.newest;
                return chain.agent;
            }
        load_agents_.push_back({new_agent(), 1});
        when = 1;
        return load_agents_.back().agent;
    }
    int new_agent() {
        if (shape_.world == nullptr) return agents_++;
        own_agents_.push_back(shape_.world->agents);
        return shape_.world->agents++;
    }

    // --- memory and semaphores -----------------------------------------------------------------------------------
    block& at_rank(const warp& w, int rank, const action& who) {
        if (rank < 0 || rank >= shape_.cluster_blocks)
            fail(name(who), " names block ", rank, " of a cluster of ", shape_.cluster_blocks);
        return blocks_[first_of(*w.home) + rank];
    }
    std::vector<warp>& warps() { return warps_; }
    barrier_state& cluster_barrier(const warp& w) { return cluster_barriers_[w.home->place / shape_.cluster_blocks]; }
    const shape& dimensions() const { return shape_; }

    // Which block's shared memory a pointer is in, and where.
    block& locate(const void* pointer, size_t& offset, const action& who) {
        const auto* at = static_cast<const unsigned char*>(pointer);
        if (at < arena_ || at >= arena_ + shared_memory::spacing * blocks_.size())
            fail(name(who),
                 " was given an address outside shared memory: tiles and semaphores come from "
                 "shared_allocator::allocate");
        offset = size_t(at - arena_) % shared_memory::spacing;
        return blocks_[size_t(at - arena_) / shared_memory::spacing];
    }

    std::string describe(const semaphore_state& s) const { return cpu::describe(blocks_, s); }

    // One arrival, at the moment it takes effect, that also announces bytes.
    void arrive(semaphore_state& s, const clock& carried, const action& who, int64_t bytes = 0) {
        if (s.pending == 0)
            fail(name(who), " is one arrival too many at ", describe(s), ": phase ", s.completed, " expects ",
                 plural(s.expected, "arrival"), ", has them all", arrivals(s), ", and still waits for ", s.bytes,
                 " bytes");
        s.pending--;
        s.bytes += bytes;
        s.announced += bytes;
        s.arrived.push_back(who);
        s.gathered.join(carried);
        try_complete(s, who);
    }

    void try_complete(semaphore_state& s, const action& who) {
        if (s.pending != 0 || s.bytes != 0) return;
        if (s.in_flight != 0) too_few_bytes(s, who);
        s.completed++;
        std::erase_if(s.waited, [&](const semaphore_state::passed& w) {
            if (w.target >= s.completed) return false;
            if (!s.gathered.covers(w.warp, w.when)) runs_ahead(s, w, who);
            return true;
        });
        s.pending = s.expected;
        s.announced = 0;
        s.arrived.clear();
        s.gathered.see(s.agent, s.completed);
        s.published.join(s.gathered);
        for (warp* w : s.waiting) make_ready(*w);
        s.waiting.clear();
    }

    // A store to global memory, ordinary or asynchronous, when w issues it: a kernel that starts early may not overtake
    // those before it, which may still read what it overwrites.
    void check_write(const warp& w, const action& who) const {
        if (overtakes(w))
            fail(name(who),
                 " writes global memory while the kernels before this one, which starts early, may still use it: call "
                 "wait_previous_kernel first, or be told by a warp that did");
    }
    // A load from global memory, by a warp itself, or by a chain of asynchronous operations that it starts.
    void note_read(const warp& w, const region& from, const action& who, bool exchanged) {
        note_read(w, from, who, exchanged, w.id, w.now, false);
    }
    void note_read(const warp& w, const region& from, const action& who, bool exchanged, int agent, tick when,
                   bool asynchronous) {
        if (shape_.resident) shadow().touch(by(w, agent, when, who, asynchronous, exchanged), access::read, from);
        else if (shape_.blocks_in_grid > shape_.cluster_blocks) read_.note(from, who, number_);
        if (overtakes(w)) check_earlier(from, who);
    }
    // A store by the copy engine, when w issues it.
    void note_store(const warp& w, const region& to, const action& who, bool exchanged, bool add) {
        if (shape_.resident)
            shadow().touch(by(w, w.written_agent, w.stores, who, true, exchanged), add ? access::add : access::write,
                           to);
    }
    void wait_previous_kernel(warp& w) {
        w.before.see(earlier_agent_, 1);
        waited_ = true;
    }
    // What a load by w brings to those who wait for it: of what w knows, that the kernels before this one have ended.
    clock carried_by_loads(const warp& w) const {
        clock carried;
        if (w.before.covers(earlier_agent_, 1)) carried.see(earlier_agent_, 1);
        return carried;
    }
    // Whether a warp of the clusters that ran here has.
    bool waited() const { return waited_; }

    // An ordinary store to global memory.
    void note_write(const void* to, size_t bytes, const action& who, bool exchanged = false, bool add = false) {
        const warp& w = *current_warp;
        check_write(w, who);
        written_.note(to, bytes, add, who, number_);
        if (shape_.resident && bytes > 0)
            shadow().touch(by(w, w.id, w.now, who, false, exchanged), add ? access::add : access::write,
                           region_of(to, bytes));
    }
    // What all clusters that ran here have written, and read.
    const global_writes& written() const { return written_; }
    const global_reads& read() const { return read_; }

    // --- counters ------------------------------------------------------------------------------------------------
    // A counter as w uses it, in a launch whose blocks may wait for one another.
    counter_state& use_counter(const warp& w, const counter& c, const action& who) {
        require_resident(who);
        if (shape_.world != nullptr) shape_.world->require_own(c.words, who);
        return counted_.use(c, who, w.id, w.now);
    }
    // A signal whose warp is told what it finds: in effect at once, after every signal that its warp knew of.
    void raise_now(warp& w, counter_state& s, const action& who) {
        land_signals(w.before);
        raise(s, 1, w.before, w.id, w.now, who);
    }
    void retire(warp& w, const counters& set, const action& who) {
        require_resident(who);
        land_signals(w.before);
        counted_.retire(set, w.before, who, int(blocks_.size()));
    }

    // --- flags ---------------------------------------------------------------------------------------------------
    // A flag of rank `of`, whose words those are, as w uses it; `own` are the words of its own rank.
    counter_state& use_flag(const warp& w, int* words, int* own, int of, int index, int count, const action& who) {
        world_state& world = require_world(who);
        counted_.use_flags(own, index, who, w.id, w.now);
        return world.flag(words, of, index, count, who);
    }
    // The last block of the launch to retire raises the epoch, the first of its rank's words.
    void retire_flags(warp& w, int* own, const action& who) {
        require_world(who);
        land_signals(w.before);
        if (!counted_.retires(own, w.before, who, int(blocks_.size()))) return;
        w.before.join(counted_.known_to_retired(own));
        note_write(own, sizeof(int), who, true);
        ++*own;
    }

    // An error where nothing may be thrown (a destructor): reported at the next switch.
    void report_later(const std::string& words) {
        if (!failure_) failure_ = std::make_exception_ptr(error(words));
    }

  private:
    global_shadow& shadow() { return shape_.world != nullptr ? shape_.world->shadow : shadow_; }
    global_accessor by(const warp& w, int agent, tick when, const action& who, bool asynchronous,
                       bool exchanged) const {
        const int own_cluster = w.home->number / shape_.cluster_blocks;
        return {agent, when, w.before, who, known_, own_cluster, launch_, shape_.rank, asynchronous, exchanged};
    }
    world_state& require_world(const action& who) const {
        if (shape_.world == nullptr)
            fail(name(who), " is in a launch of one rank, which has no flags: launch_ranks starts it");
        return *shape_.world;
    }

    void require_resident(const action& who) const {
        if (!shape_.resident)
            fail(name(who), " is in a launch whose blocks run one after another: launch_resident starts it");
    }

    void check_earlier(const region& from, const action& who) const {
        for (int r = 0; r < from.rows; r++)
            if (const action* writer = shape_.earlier->find(from.row(r), from.bytes))
                fail(name(who), " reads global memory that ", name(*writer),
                     " of an earlier kernel may still write: this kernel starts early; call wait_previous_kernel "
                     "first, or be told by a warp that did");
    }

    // Whether w runs ahead of a kernel before this one.
    bool overtakes(const warp& w) const { return shape_.earlier != nullptr && !w.before.covers(earlier_agent_, 1); }

    struct load_agent {
        int agent;
        tick newest;
    };

    void start(int number, uint64_t seed) {
        number_ = number;
        claims_ = nullptr;
        dice_ = random(seed * 0x2545f4914f6cdd1dull + uint64_t(number) + 1);
        temper_.emplace(dice_);
        effects_.clear();
        ready_.clear();
        load_agents_.clear();
        for (barrier_state& barrier : cluster_barriers_) barrier = {};
        queued_multiplies_ = 0;
        if (shape_.world != nullptr) launch_ = shape_.world->launches++;
        agents_ = 0;
        first_agent_ = new_agent();
        for (size_t i = 1; i < warps_.size(); i++) new_agent();
        earlier_agent_ = new_agent();
        for (int place = 0; place < int(blocks_.size()); place++) {
            block& b = blocks_[place];
            b.number = number * int(blocks_.size()) + place;
            b.rank = place % shape_.cluster_blocks;
            b.place = place;
            b.gpu = shape_.rank;
            b.running = shape_.warps;
            b.memory.start(arena_ + place * shared_memory::spacing, shape_.shared_bytes);
            b.semaphores.clear();
            for (barrier_state& barrier : b.barriers) barrier = {};
            b.inbounds.clear();
            b.issued.assign((shape_.warps + 3) / 4, {});
            b.last.clear();
        }
        for (int id = 0; id < int(warps_.size()); id++) {
            warp& w = warps_[id];
            std::unique_ptr<fiber> stack = std::move(w.stack);
            w = {};
            w.stack = std::move(stack);
            w.id = first_agent_ + id;
            w.index = id % shape_.warps;
            w.home = &blocks_[id / shape_.warps];
            w.machine = this;
            w.before.see(w.id, w.now);
            w.preference = dice_.next();
            w.multiply_agent = new_agent();
            w.store_agent = new_agent();
            w.copy_agent = new_agent();
            if (shape_.resident) w.written_agent = new_agent();
            w.stack->reset(&cluster::enter, &w);
            ready_.push_back(&w);
        }
        running_ = int(warps_.size());
    }

    static void enter(void* argument) {
        warp& w = *static_cast<warp*>(argument);
        cluster& machine = *w.machine;
        try {
            if (!machine.abandoning_) {
                machine.body_(machine.globals_);
                machine.end(w);
            }
        } catch (const abandoned&) {
        } catch (...) {
            if (!machine.failure_) machine.failure_ = std::current_exception();
        }
        w.ended = true;
        w.stack->leave(machine.scheduler_);
        __builtin_unreachable();
    }

    void leave(warp& w) {
        w.stack->leave(scheduler_);
        if (abandoning_) throw abandoned{};
    }

    void resume(warp& w) {
        current_warp = &w;
        w.stack->enter(&scheduler_);
        current_warp = nullptr;
        if (w.ended) running_--;
    }

    void schedule() {
        while (running_ > 0) {
            if (failure_ || yields_) return;
            while (anything_in_flight() && (ready_.empty() || dice_.chance(temper_->land_in_256))) land_something();
            if (ready_.empty()) {
                if (shape_.world != nullptr) return;
                fail(deadlock, who_waits());
            }
            resume(take_ready());
            if (shape_.world != nullptr && dice_.chance(shape_.world->yields_in_256)) return;
        }
        if (failure_) return;
        while (!effects_.empty()) land(dice_.below(effects_.size()));
    }

    warp& take_ready() {
        size_t chosen = dice_.below(ready_.size());
        // A schedule with preferences still deviates now and then, so that nobody waits for ever.
        if (temper_->prefers && !dice_.chance(32))
            for (size_t i = 0; i < ready_.size(); i++)
                if (ready_[i]->preference > ready_[chosen]->preference) chosen = i;
        warp& w = *ready_[chosen];
        ready_[chosen] = ready_.back();
        ready_.pop_back();
        return w;
    }

    void land_something() {
        size_t chosen = dice_.below(effects_.size() + queued_multiplies_);
        if (chosen < effects_.size()) return land(chosen);
        chosen -= effects_.size();
        for (warp& w : warps_) {
            if (chosen < w.queue.size()) return land_multiplies(w, w.queue.front().when);
            chosen -= w.queue.size();
        }
    }

    void read_source(effect& e) {
        if (e.is_read) return;
        e.held.assign(e.memory, e.memory + e.where.bytes());
        e.is_read = true;
    }

    void land(size_t index) {
        if (effects_[index].what == effect::kind::signal) return land_signal(index);
        effect e = std::move(effects_[index]);
        if (index + 1 != effects_.size()) effects_[index] = std::move(effects_.back());
        effects_.pop_back();
        switch (e.what) {
            case effect::kind::load: land_load(e); break;
            case effect::kind::copy: read_to(e); break;
            case effect::kind::store:
                read_source(e);
                written_.note(e.where, e.add, e.who, number_);
                e.add ? add_box(e.where, e.held.data()) : write_box(e.where, e.held.data());
                break;
            case effect::kind::arrival: arrive(*e.done, e.carried, e.who); break;
            case effect::kind::signal: break;  // land_signal
        }
    }

    // A release: after every signal that its warp knew of.
    void land_signal(size_t index) {
        const effect e = std::move(effects_[index]);
        effects_.erase(effects_.begin() + std::ptrdiff_t(index));
        land_signals(e.carried);
        raise(*e.raised, e.amount, e.carried, e.agent, e.when, e.who);
    }
    void raise(counter_state& s, int amount, const clock& carried, int agent, tick when, const action& who) {
        counting::raise(s, amount, carried, agent, when, who);
        std::erase_if(s.waiting, [&](const counter_state::sleeper& w) {
            if (s.value < w.at_least) return false;
            w.who->machine->make_ready(*w.who);
            return true;
        });
    }
    // Those that a clock has seen.
    void land_signals(const clock& known) {
        for (size_t i = 0; i < effects_.size();) {
            const effect& e = effects_[i];
            if (e.what == effect::kind::signal && known.covers(e.agent, e.when)) {
                land_signal(i);
                i = 0;
            } else {
                i++;
            }
        }
    }

    // A load's or a copy's bytes.
    void read_to(effect& e) {
        read_box(e.where, e.memory);
        size_t offset;
        locate(e.memory, offset, e.who).memory.mark_written(offset, e.where.bytes());
    }

    void land_load(effect& e) {
        read_to(e);
        semaphore_state& s = *e.done;
        s.in_flight--;
        s.bytes -= e.where.bytes();
        s.gathered.see(e.agent, e.when);
        s.gathered.join(e.carried);
        try_complete(s, e.who);
    }

    [[noreturn]] void runs_ahead(const semaphore_state& s, const semaphore_state::passed& w, const action& who) {
        fail(name(who), " completes phase ", s.completed - 1, " of ", describe(s), " without being ordered after ",
             name(w.who), ", which waits for ",
             w.target == 0 ? "the one before the first" : text("phase ", w.target - 1),
             ": had that warp come later, its parity could not tell the two phases apart; "
             "let each phase depend on an arrival that follows the waits for the one before");
    }

    [[noreturn]] void too_few_bytes(const semaphore_state& s, const action& who) {
        for (const effect& e : effects_)
            if (e.what == effect::kind::load && e.done == &s)
                fail("phase ", s.completed, " of ", describe(s), " completes by ", name(who), " with the ", s.announced,
                     " bytes that were announced, while ", name(e.who), " still brings ", e.where.bytes(),
                     " more: either expect_bytes announces too little, or that load was started a phase too early");
        fail("internal: ", describe(s), " counts loads that are not in flight");
    }

    // A warp's last act.
    void end(warp& w) {
        if (!w.claims.empty())
            fail("block ", w.home->number, ", warp ", w.index, " ends while ", name(w.claims.front().who),
                 " is in flight: call warpgroup::mma_wait before the kernel ends");
        if (w.stores_read < w.stores)
            fail("block ", w.home->number, ", warp ", w.index, " ends while ", name(w.last_store),
                 " is in flight and may still read shared memory: call store_wait before the kernel ends");
        if (w.before.seen(w.copy_agent) < w.copies)
            fail("block ", w.home->number, ", warp ", w.index, " ends while ", name(w.last_copy),
                 " may be in flight: call copy_commit and copy_wait before the kernel ends");
        w.home->last.join(w.before);
        if (--w.home->running == 0) end(*w.home);
    }

    void end(block& b) {
        for (const warp& w : warps_) {
            if (w.home != &b || w.multiplies == b.issued[w.index / 4].size()) continue;
            fail("block ", b.number, ", warp ", w.index, " ends after ", plural(w.multiplies, "asynchronous multiply"),
                 ", without ", name(b.issued[w.index / 4][w.multiplies]),
                 ": all four warps of a warpgroup issue each multiply together");
        }
        for (const block::inbound& in : b.inbounds)
            if (!b.last.covers(in.agent, in.when))
                fail("block ", b.number, " ends while ", name(in.who), " may still ", in.doing,
                     ": nothing orders it before the block's end; wait for it, or end with sync_cluster");
    }

    // Unwinds the stacks of all warps that have not ended.
    void abandon() {
        abandoning_ = true;
        effects_.clear();
        for (warp& w : warps_) {
            w.queue.clear();
            w.claims.clear();
        }
        for (warp& w : warps_) {
            if (w.ended) continue;
            current_warp = &w;
            w.stack->enter(&scheduler_);
            current_warp = nullptr;
        }
        running_ = 0;
        abandoning_ = false;
    }

    shape shape_;
    void (*body_)(const void*);
    const void* globals_;
    unsigned char* arena_ = nullptr;
    std::vector<block> blocks_;
    std::vector<warp> warps_;
    std::vector<warp*> ready_;
    std::vector<effect> effects_;
    std::vector<load_agent> load_agents_;
    global_writes written_;
    global_reads read_;
    global_shadow shadow_;
    counting counted_;
    int number_ = 0, launch_ = 0;
    std::vector<barrier_state> cluster_barriers_;
    random dice_{0};
    std::optional<temper> temper_;
    size_t queued_multiplies_ = 0;
    int agents_ = 0, first_agent_ = 0, running_ = 0;
    std::vector<int> own_agents_;  // where ranks number theirs together
    clock known_;                  // of a rank's launch, when it began
    int earlier_agent_ = 0;        // the kernels before this one: their end is its only event
    bool waited_ = false;
    void* scheduler_ = nullptr;
    bool abandoning_ = false, yields_ = false;
    claims* claims_ = nullptr;  // where clusters claim from counters
    std::exception_ptr failure_;
};

}  // namespace kittens::cpu
