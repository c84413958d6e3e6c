// What the clusters of a launch write to global memory. Nothing orders two clusters, so that where they write the same
// bytes the result depends on who comes last; only additions may meet. A kernel that starts early is held against what
// the kernels before it wrote.
#pragma once

#include <algorithm>
#include <vector>

#include "kittens/target/cpu/runtime/boxes.cuh"

namespace kittens::cpu {

class global_writes {
  public:
    // `bytes` at `to`, written (or added to) by `who`, of cluster `number`.
    void note(const void* to, size_t bytes, bool add, const action& who, int number) {
        if (bytes == 0) return;
        if (writers_.empty() || !same(writers_.back().who, who) || writers_.back().cluster != number)
            writers_.push_back({who, add, number});
        const uintptr_t low = reinterpret_cast<uintptr_t>(to);
        const uint32_t writer = uint32_t(writers_.size() - 1);
        if (!runs_.empty() && runs_.back().writer == writer && runs_.back().low + runs_.back().bytes == low)
            runs_.back().bytes += uint32_t(bytes);
        else runs_.push_back({low, uint32_t(bytes), writer});
    }
    void note(const box& b, bool add, const action& who, int number) {
        for (int r = 0; r < b.inner_rows(); r++)
            note(b.row(r), size_t(b.inner_cols()) * b.element_bytes, add, who, number);
    }

    void take(const global_writes& other) {
        const uint32_t first = uint32_t(writers_.size());
        writers_.insert(writers_.end(), other.writers_.begin(), other.writers_.end());
        for (run r : other.runs_) {
            r.writer += first;
            runs_.push_back(r);
        }
    }

    bool empty() const { return runs_.empty(); }

    // After the launch: fails where two clusters wrote the same bytes.
    void check() {
        sort();
        reach_.clear();
        const run* widest = nullptr;  // of those before, the one that ends last
        for (const run& r : runs_) {
            if (widest != nullptr && r.low < widest->low + widest->bytes) compare(*widest, r);
            if (widest == nullptr || r.low + r.bytes > widest->low + widest->bytes) widest = &r;
            reach_.push_back(widest->low + widest->bytes);
        }
    }
    // After `check`: who, of another cluster, wrote one of the bytes; null: nobody.
    const action* any(uintptr_t low, uintptr_t high, int cluster) const {
        size_t i = size_t(std::upper_bound(reach_.begin(), reach_.end(), low) - reach_.begin());
        for (; i < runs_.size() && runs_[i].low < high; i++)
            if (runs_[i].low + runs_[i].bytes > low && writers_[runs_[i].writer].cluster != cluster)
                return &writers_[runs_[i].writer].who;
        return nullptr;
    }

    // For `find`: the runs in order, each without what one before it covers.
    void index() {
        sort();
        std::vector<run> apart;
        uintptr_t end = 0;
        for (run r : runs_) {
            const uintptr_t high = r.low + r.bytes;
            if (high <= end) continue;
            r.low = std::max(r.low, end);
            r.bytes = uint32_t(high - r.low);
            end = high;
            apart.push_back(r);
        }
        runs_ = std::move(apart);
    }
    // Who wrote one of the bytes; null: nobody.
    const action* find(uintptr_t low, size_t bytes) const {
        const auto next =
            std::partition_point(runs_.begin(), runs_.end(), [low](const run& r) { return r.low + r.bytes <= low; });
        return next != runs_.end() && next->low < low + bytes ? &writers_[next->writer].who : nullptr;
    }

  private:
    struct run {
        uintptr_t low;
        uint32_t bytes, writer;
    };
    struct writer {
        action who;
        bool add;
        int cluster;
    };

    void sort() {
        std::sort(runs_.begin(), runs_.end(), [](const run& a, const run& b) { return a.low < b.low; });
    }

    void compare(const run& a, const run& b) const {
        const writer &first = writers_[a.writer], &second = writers_[b.writer];
        if (first.cluster == second.cluster || (first.add && second.add)) return;
        fail(name(second.who), " and ", name(first.who), " write the same global memory, ",
             std::min<size_t>(b.bytes, a.low + a.bytes - b.low),
             " bytes of it in one row: nothing orders two clusters; give each "
             "tile of the result to one, or let all of them add");
    }

    std::vector<writer> writers_;
    std::vector<run> runs_;
    std::vector<uintptr_t> reach_;  // of each run and those before it, the furthest end
};

}  // namespace kittens::cpu
