// What the clusters of a launch read of global memory, to be held against what they wrote: nothing orders two clusters,
// so that whoever reads what another one writes may come before or after.
#pragma once

#include <vector>

#include "kittens/target/cpu/runtime/global_writes.cuh"

namespace kittens::cpu {

class global_reads {
  public:
    void note(const region& from, const action& who, int cluster) {
        if (from.rows > 0 && from.bytes > 0) reads_.push_back({from, reader_number(who, cluster)});
    }

    void take(const global_reads& other) {
        const uint32_t first = uint32_t(readers_.size());
        readers_.insert(readers_.end(), other.readers_.begin(), other.readers_.end());
        for (read r : other.reads_) {
            r.reader += first;
            reads_.push_back(r);
        }
    }

    // After the launch: fails where one cluster read what another wrote. The writes are in order.
    void check(const global_writes& writes) const {
        if (writes.empty()) return;
        for (const read& r : reads_) {
            const region& from = r.from;
            const uintptr_t first = from.row(0), last = from.row(from.rows - 1);
            const reader& who = readers_[r.reader];
            if (!writes.any(std::min(first, last), std::max(first, last) + from.bytes, who.cluster)) continue;
            for (int row = 0; row < from.rows; row++)
                if (const action* writer = writes.any(from.row(row), from.row(row) + from.bytes, who.cluster))
                    fail(name(who.who), " reads global memory that ", name(*writer),
                         ", of another block, writes in the same launch: nothing orders the two; write it in an "
                         "earlier kernel, or hand it over by a counter, in an exchanged tensor and by launch_resident");
        }
    }

  private:
    struct read {
        region from;
        uint32_t reader;
    };
    struct reader {
        action who;
        int cluster;
    };

    // Of one of the last few, which take turns in a loop, or of a new one.
    uint32_t reader_number(const action& who, int cluster) {
        const size_t oldest = readers_.size() > 8 ? readers_.size() - 8 : 0;
        for (size_t i = readers_.size(); i-- > oldest;)
            if (readers_[i].cluster == cluster && same(readers_[i].who, who)) return uint32_t(i);
        readers_.push_back({who, cluster});
        return uint32_t(readers_.size() - 1);
    }

    std::vector<reader> readers_;
    std::vector<read> reads_;
};

}  // namespace kittens::cpu
