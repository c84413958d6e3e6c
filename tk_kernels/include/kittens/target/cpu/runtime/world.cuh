// Ranks side by side on one host thread: each carries out its launches one after another, and the seed says which rank
// goes on, so that one may be a launch ahead of another. They meet in flags alone.
#pragma once

#include <functional>

#include "kittens/target/cpu/runtime/cluster.cuh"

namespace kittens::cpu {

class world {
  public:
    explicit world(int ranks) : ranks_(size_t(ranks)) {}

    int ranks() const { return int(ranks_.size()); }

    // A launch behind the others of a rank, for `run` to carry out; it keeps a copy of its globals.
    template <typename Globals>
    void add(int rank, cluster::shape shape, void (*body)(const void*), const Globals& globals) {
        shape.clusters = shape.blocks_in_grid / shape.cluster_blocks;
        shape.resident = true;
        shape.world = &state_;
        shape.rank = rank;
        const auto kept = std::make_shared<const Globals>(globals);
        ranks_.at(size_t(rank))
            .launches.push_back({[=] { return std::make_unique<cluster>(shape, body, kept.get()); }, kept});
    }

    // Runs all launches to their ends; throws kittens::error where one is wrong, or none can go on.
    void run(uint64_t seed) {
        random dice(~seed);
        static constexpr int yields[] = {0, 8, 128}, stays[] = {0, 128, 250};
        state_.yields_in_256 = yields[dice.below(3)];
        const int stays_in_256 = stays[dice.below(3)];
        for (size_t i = 0;;) {
            std::vector<size_t> able;
            for (size_t r = 0; r < ranks_.size(); r++)
                if (prepare(ranks_[r], seed * 31 + r)) able.push_back(r);
            if (able.empty()) break;
            if (!std::count(able.begin(), able.end(), i) || !dice.chance(stays_in_256))
                i = able[dice.below(able.size())];
            of_rank& r = ranks_[i];
            if (!r.present->advance()) continue;
            r.known = r.present->end_of_rank();
            r.present.reset();
        }
        std::string waiting;
        for (const of_rank& r : ranks_)
            if (r.present != nullptr) waiting += r.present->who_waits();
        if (!waiting.empty()) fail(deadlock, waiting);
        state_.check();
    }

  private:
    struct launch {
        std::function<std::unique_ptr<cluster>()> make;
        std::shared_ptr<const void> globals;
    };
    struct of_rank {
        std::deque<launch> launches;
        std::unique_ptr<cluster> present;
        launch carried_out;
        claims claimed;
        clock known;
    };

    // Whether a rank can go on; its next launch begins where the one before has ended.
    static bool prepare(of_rank& r, uint64_t seed) {
        if (r.present == nullptr && !r.launches.empty()) {
            r.carried_out = std::move(r.launches.front());
            r.launches.pop_front();
            r.claimed = {};
            r.present = r.carried_out.make();
            r.present->start_of_rank(seed + r.launches.size() * 1009, r.claimed, r.known);
        }
        return r.present != nullptr && !r.present->blocked();
    }

    world_state state_;
    std::vector<of_rank> ranks_;
};

}  // namespace kittens::cpu
