// One block's shared memory: its bytes, the names of what was allocated in it, which bytes were ever written, and who
// accessed them last, so that an access that nothing orders after a conflicting one is found whatever the timing.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "kittens/target/cpu/runtime/clock.cuh"
#include "kittens/target/cpu/runtime/report.cuh"

namespace kittens::cpu {

// Who accesses, and what is certain to have happened before it.
struct accessor {
    int agent;
    tick when;
    const clock& before;
    const action& who;
    bool asynchronous;  // TMA or wgmma: another proxy than ordinary loads and stores
};

class shared_memory {
  public:
    static constexpr size_t capacity = limits::shared_bytes;
    static constexpr size_t spacing = 256 * 1024;  // from one block's memory to its neighbour's

    struct allocation {
        std::string name;
        size_t offset, element_bytes, count;
    };

    // Empty memory at `bytes`, of which the launch asked for `limit`.
    void start(unsigned char* bytes, size_t limit) {
        bytes_ = bytes;
        limit_ = limit;
        allocations_.clear();
        pages_.resize(spacing / page_bytes);
        for (size_t p = 0; p * page_bytes < used_; p++) pages_[p] = {};
        written_.resize(spacing);
        std::memset(written_.data(), 0, used_);
        std::memset(bytes_, 0xff, started_ ? used_ : spacing);  // every float type reads this as NaN
        started_ = true;
        used_ = 0;
    }

    unsigned char* bytes() const { return bytes_; }

    // Number `index` of the block's allocations, by each of its warps in the same order.
    unsigned char* allocate(size_t index, const char* name, size_t element_bytes, size_t count, size_t alignment) {
        if (index == allocations_.size()) {
            const size_t offset = (used_ + alignment - 1) / alignment * alignment;
            const size_t end = offset + element_bytes * count;
            if (end > capacity)
                fail("allocate: ", name, " needs ", element_bytes * count, " bytes at ", offset, ", but a block has ",
                     capacity, " bytes of shared memory: use fewer stages or smaller tiles");
            if (end > limit_)
                fail("allocate: ", name, " ends at byte ", end, ", but the launch asked for ", limit_,
                     " bytes of shared memory: raise launch_shape::shared_bytes");
            allocations_.push_back({name, offset, element_bytes, count});
            used_ = end;
        }
        const allocation& held = allocations_[index];
        if (held.name != name || held.element_bytes != element_bytes || held.count != count)
            fail("allocate: a warp asks for ", name, "[", count, "] of ", element_bytes,
                 " bytes where another warp of its block got ", held.name, "[", held.count, "] of ", held.element_bytes,
                 ": all warps must allocate the same, in the same order");
        return bytes_ + held.offset;
    }

    // "input[2]", "input[2] (bytes 0 to 8191 of 32768)", "output".
    std::string describe(size_t offset, size_t bytes) const {
        for (const allocation& a : allocations_) {
            if (offset < a.offset || offset >= a.offset + a.element_bytes * a.count) continue;
            const size_t index = (offset - a.offset) / a.element_bytes, from = (offset - a.offset) % a.element_bytes;
            std::string words = a.count == 1 ? a.name : text(a.name, "[", index, "]");
            if (from != 0 || bytes < a.element_bytes)
                words += bytes == 1 ? text(" (byte ", from, " of ", a.element_bytes, ")")
                                    : text(" (bytes ", from, " to ", std::min(from + bytes, a.element_bytes) - 1,
                                           " of ", a.element_bytes, ")");
            return words;
        }
        return text("shared memory that was not allocated, at byte ", offset);
    }

    // An access of `count` runs of `bytes`, `step` apart. A read must find every byte written.
    void access(const accessor& by, bool write, size_t offset, size_t bytes, size_t count = 1, size_t step = 0) {
        for (size_t k = 0; k < count; k++) access_run(by, write, offset + k * step, bytes);
    }

    void mark_written(size_t offset, size_t bytes) { std::memset(written_.data() + offset, 1, bytes); }

  private:
    static constexpr size_t page_bytes = 1024;

    struct record {
        uint16_t low, high;  // within the page
        bool write, ordinary;
        int agent;
        tick when;
        action who;
    };
    struct page {
        std::vector<record> records;
        bool complete = false;  // every byte written
    };

    void access_run(const accessor& by, bool write, size_t offset, size_t bytes) {
        if (offset + bytes > used_ || !allocated(offset, bytes))
            fail(name(by.who), " touches bytes ", offset, " to ", offset + bytes - 1,
                 " of shared memory, which no single allocation holds (",
                 offset < used_ ? describe(offset, used_) + " begins or continues there"
                                : text("the last one ends at ", used_),
                 "): its index or its tile is outside what was allocated");
        for (size_t at = offset; at < offset + bytes;) {
            const size_t number = at / page_bytes, end = std::min(offset + bytes, (number + 1) * page_bytes);
            check_page(by, write, number, at - number * page_bytes, end - number * page_bytes, offset, bytes);
            at = end;
        }
    }

    bool allocated(size_t offset, size_t bytes) const {
        for (const allocation& a : allocations_)
            if (offset >= a.offset && offset + bytes <= a.offset + a.element_bytes * a.count) return true;
        return false;
    }

    void check_page(const accessor& by, bool write, size_t number, size_t low, size_t high, size_t offset,
                    size_t bytes) {
        page& here = pages_[number];
        for (size_t i = 0; i < here.records.size();) {
            const record& past = here.records[i];
            if (past.high <= low || past.low >= high) {
                i++;
                continue;
            }
            const bool ordered = by.before.covers(past.agent, past.when);
            if ((write || past.write) && !ordered) race(past, by, write, offset, bytes);
            if (by.asynchronous && past.write && past.ordinary && !by.before.covers_fence(past.agent, past.when))
                missing_fence(past, by, write, offset, bytes);
            // Whoever comes after this access also comes after an ordered one that it covers.
            const bool replaced = ordered && low <= past.low && past.high <= high && (write || !past.write);
            if (replaced) {
                here.records[i] = here.records.back();
                here.records.pop_back();
            } else {
                i++;
            }
        }
        if (!write && !here.complete) check_written(here, by, number, low, high);
        here.records.push_back({uint16_t(low), uint16_t(high), write, !by.asynchronous, by.agent, by.when, by.who});
        if (here.records.size() > 256) prune(here);
    }

    void check_written(page& here, const accessor& by, size_t number, size_t low, size_t high) {
        const unsigned char* flags = written_.data() + number * page_bytes;
        if (const void* hole = std::memchr(flags + low, 0, high - low)) {
            const size_t at = number * page_bytes + (static_cast<const unsigned char*>(hole) - flags);
            fail(name(by.who), " reads ", describe(at, 1),
                 ", which nothing has written: load or store it first, and wait for the load");
        }
        here.complete = std::memchr(flags, 0, page_bytes) == nullptr;
    }

    // Reads by one agent over one range: only the newest matters.
    static void prune(page& here) {
        std::vector<record> kept;
        for (auto it = here.records.rbegin(); it != here.records.rend(); ++it) {
            const bool known = !it->write && std::any_of(kept.begin(), kept.end(), [&](const record& k) {
                return !k.write && k.agent == it->agent && k.low <= it->low && it->high <= k.high;
            });
            if (!known) kept.push_back(*it);
        }
        here.records.assign(kept.rbegin(), kept.rend());
    }

    [[noreturn]] void race(const record& past, const accessor& by, bool write, size_t offset, size_t bytes) const {
        fail(name(by.who), write ? " writes " : " reads ", describe(offset, bytes), " while ", name(past.who),
             " may still ", past.write ? "write" : "read", " it: nothing orders the two; ", advice(past, by, write));
    }

    static std::string advice(const record& past, const accessor& by, bool write) {
        const std::string earlier = past.who.op, later = by.who.op;
        const auto is = [](const std::string& op, const char* part) { return op.find(part) != std::string::npos; };
        if (past.write && is(earlier, "copy_async"))
            return "the warp that copies calls copy_commit and copy_wait for that group, and a barrier follows where "
                   "another warp uses the memory";
        if (write && is(later, "copy_async"))
            return "put a barrier between the last use of the memory and the copy that overwrites it";
        if (past.write && is(earlier, "load_async"))
            return "wait for the phase of its semaphore that the load completes before touching the memory";
        if (is(earlier, "mma"))
            return "release the memory only after warpgroup::mma_wait, by every warp that issued the multiply";
        if (is(earlier, "store_async") || is(earlier, "store_add_async"))
            return "the warp that stored calls store_read_wait, and a barrier follows, before the memory is used again";
        if (write && is(later, "load_async"))
            return "the reader arrives at a semaphore after its last access, and the loader waits for that phase";
        return "put a barrier, or an arrive and a wait, between the two";
    }

    [[noreturn]] void missing_fence(const record& past, const accessor& by, bool write, size_t offset,
                                    size_t bytes) const {
        fail(name(by.who), write ? " writes " : " reads ", describe(offset, bytes), " after ", name(past.who),
             " wrote it with ordinary stores and without a fence: the asynchronous unit may miss them; the storing "
             "warp calls "
             "fence_async before the barrier that leads here");
    }

    unsigned char* bytes_ = nullptr;
    bool started_ = false;
    size_t used_ = 0, limit_ = capacity;
    std::vector<allocation> allocations_;
    std::vector<page> pages_;
    std::vector<unsigned char> written_;
};

}  // namespace kittens::cpu
