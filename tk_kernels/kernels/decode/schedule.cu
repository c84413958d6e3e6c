// The schedules of paged decode: which block attends which keys of which tile, and who reduces. Host code alone.
//
// All three cut tiles into pieces of whole key steps, and every block runs its attends before its reductions. A
// reduction waits for attends alone and an attend for nothing, so that no order of these queues can deadlock.
//
//   static    pieces of at most total / blocks steps, equal within a tile, dealt to the block with the fewest steps;
//             the blocks that have a tile's pieces reduce equal parts of its rows. No cost model.
//   makespan  several partitions are tried under the cost model and the one that ends first is taken, the static one
//             among them. Reductions are cut by rows and go to the blocks that are free first.
//   last      the same partitions; the last block to store a partial of a tile reduces it.
//
// Partitions that are tried: whole tiles, longest first; each block one piece, more pieces to whichever tile is the
// slowest (where there are fewer tiles than blocks); and wrap-around, which fills block after block up to a deadline
// and cuts the tile that does not fit. The least deadline is found by bisection; longer ones have fewer pieces and so
// less to reduce.
#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <vector>

#include "decode_plan.h"
#include "tiles.cuh"

namespace tk::decode_plan {
namespace {

struct tile {
    int sequence, kv_head, row_tile;
    int length, steps, rows;
};
struct piece {
    int tile, block, first_step, steps;
    bool whole;
};
struct reduction {
    int tile, block, first_row, end_row;
};
// A partition and what it costs. Pieces of a block are in the order in which it runs them, those of a tile in the order
// of their keys, one behind the other.
struct partition {
    std::vector<piece> pieces;
    std::vector<reduction> reductions;
    std::vector<int> partials;  // of each tile
    double time = 0;
};

constexpr int least_steps = 2;                                   // of a piece, where a tile is cut to fill a block
constexpr int reductions_a_block = 4;                            // at most; the rest of its capacity is for attends
constexpr double deadlines[] = {1.0, 1.1, 1.25, 1.5, 2.0, 3.0};  // tried, over the least one
constexpr int bisections = 10;

class planner {
  public:
    planner(const shape& shape, const costs& costs, std::span<const std::int32_t> lengths)
        : shape_(shape), costs_(costs), attends_(shape.capacity - reductions_a_block) {
        std::vector<int> order(lengths.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return lengths[a] > lengths[b]; });
        tiles_.reserve(shape.tiles());
        for (const int sequence : order) {
            const int length = lengths[sequence],
                      steps = int((std::int64_t(length) + shape.key_step - 1) / shape.key_step);
            for (int head = 0; head < shape.kv_heads; ++head) {
                for (int t = 0; t < shape.row_tiles; ++t)
                    tiles_.push_back({sequence, head, t, length, steps, shape.rows_of(t)});
            }
        }
    }

    const std::vector<tile>& tiles() const { return tiles_; }

    partition static_pieces() const {
        std::int64_t total = 0;
        for (const tile& t : tiles_) total += t.steps;
        const std::int64_t most = std::max<std::int64_t>(1, (total + shape_.blocks - 1) / shape_.blocks);
        partition p = dealt([=](const tile& t) { return std::max(1, int((t.steps + most - 1) / most)); },
                            [](const tile&, int steps) { return double(steps); });
        timing now = attend(p);
        std::vector<int> reduced(shape_.blocks, 0);
        std::size_t first = 0;  // of the tile's pieces
        reduce(p, now, [&](int i, int part) {
            while (p.pieces[first].tile != i) ++first;
            int block = p.pieces[first + part].block;
            while (reduced[block] == reductions_a_block) block = (block + 1) % shape_.blocks;
            ++reduced[block];
            return block;
        });
        return p;
    }

    partition best(schedule kind) const {
        partition found;
        double found_counts = 0;
        const auto take_better = [&](partition&& p, double times) {
            if (!found.pieces.empty() && p.time * times >= found_counts) return;
            found_counts = p.time * times;
            found = std::move(p);
        };
        const auto offer = [&](partition&& p, double times = 1) {
            kind == schedule::last ? reduce_by_last(p) : reduce_by_free(p);
            take_better(std::move(p), times);
        };
        // Whole tiles: the longest that is left goes to the block that is free first.
        offer(dealt([](const tile&) { return 1; },
                    [&](const tile& t, int steps) { return attend_time(t, steps, true); }));
        if (int(tiles_.size()) <= shape_.blocks) offer(shared_out());
        const double least = least_deadline();
        std::size_t before = 0;
        for (const double factor : deadlines) {
            partition p;
            if (!wrap_around(least * factor, p)) continue;
            // Without cuts there is nothing more to win by a longer deadline.
            const bool cut = p.pieces.size() > tiles_.size(), seen = p.pieces.size() == before;
            before = p.pieces.size();
            if (!seen) offer(std::move(p), shape_.row_tiles > 1 ? costs_.apart : 1);
            if (!cut || least * factor > found.time) break;
        }
        if (kind == schedule::makespan) take_better(static_pieces(), 1);
        return found;
    }

  private:
    // The blocks, the one with the least work first; of equals the first.
    class least_first {
      public:
        explicit least_first(std::vector<double> work) {
            std::vector<entry> all;
            for (const double one : work) all.push_back({one, int(all.size())});
            entries_ = queue({}, std::move(all));
        }
        std::pair<double, int> take() {
            const entry least = entries_.top();
            entries_.pop();
            return least;
        }
        void give(int block, double work) { entries_.push({work, block}); }

      private:
        using entry = std::pair<double, int>;
        using queue = std::priority_queue<entry, std::vector<entry>, std::greater<entry>>;
        queue entries_;
    };

    // When each block is free, when the last partial of each tile is stored, and the tiles that have partials.
    struct timing {
        std::vector<double> free, ready;
        std::vector<int> cut;
    };

    double attend_time(const tile& t, int steps, bool whole) const { return costs_.attend(steps, t.rows, whole); }

    template <typename Block> void cut_equally(partition& p, int index, int pieces, const Block& block_of) const {
        const int steps = tiles_[index].steps, each = steps / pieces, more = steps % pieces;
        for (int i = 0, first = 0; i < pieces; ++i) {
            const int taken = each + (i < more);
            p.pieces.push_back({index, block_of(taken), first, taken, pieces == 1});
            first += taken;
        }
    }

    // Each tile in so many equal pieces, piece by piece to the block that has the least work.
    template <typename Pieces, typename Work> partition dealt(const Pieces& pieces_of, const Work& work_of) const {
        partition p;
        p.pieces.reserve(tiles_.size());
        std::vector<int> count(shape_.blocks, 0);
        least_first free(std::vector<double>(shape_.blocks, 0.0));
        for (int i = 0; i < int(tiles_.size()); ++i)
            cut_equally(p, i, pieces_of(tiles_[i]), [&](int steps) {
                const auto [work, block] = free.take();
                if (++count[block] < attends_) free.give(block, work + work_of(tiles_[i], steps));
                return block;
            });
        return p;
    }

    // Each block has one piece; the tile whose pieces take the longest gets the next block.
    partition shared_out() const {
        const int count = int(tiles_.size());
        std::vector<int> pieces(count, 1);
        using entry = std::pair<double, int>;
        std::priority_queue<entry> slowest;
        for (int i = 0; i < count; ++i) slowest.push({attend_time(tiles_[i], tiles_[i].steps, true), i});
        for (int spare = shape_.blocks - count; spare > 0;) {
            const int i = slowest.top().second, steps = tiles_[i].steps, longest = divide_up(steps, pieces[i]);
            if (longest <= 1) break;
            const int wanted = divide_up(steps, longest - 1);  // pieces, for its longest to be a step shorter
            if (wanted - pieces[i] > spare) break;
            spare -= wanted - pieces[i];
            pieces[i] = wanted;
            slowest.pop();
            slowest.push({attend_time(tiles_[i], divide_up(steps, wanted), false), i});
        }
        partition p;
        int block = 0;
        for (int i = 0; i < count; ++i) cut_equally(p, i, pieces[i], [&](int) { return block++; });
        return p;
    }
    static int divide_up(int a, int b) { return (a + b - 1) / b; }

    // Whether all tiles fit when no block works beyond the deadline; the pieces if so.
    bool wrap_around(double deadline, partition& p) const {
        p.pieces.clear();
        p.pieces.reserve(tiles_.size() + shape_.blocks);
        int block = 0, count = 0;
        double used = 0;
        const auto next_block = [&] { return ++block, used = 0, count = 0, block < shape_.blocks; };
        const auto place = [&](int i, int first, int steps, bool whole) {
            p.pieces.push_back({i, block, first, steps, whole});
            used += attend_time(tiles_[i], steps, whole);
            ++count;
        };
        for (int i = 0; i < int(tiles_.size()); ++i) {
            const tile& t = tiles_[i];
            for (int first = 0;;) {
                const int left = t.steps - first;
                if (count < attends_) {
                    if (used + attend_time(t, left, first == 0) <= deadline) {
                        place(i, first, left, first == 0);
                        break;
                    }
                    const double room = (deadline - used - attend_time(t, 0, false)) / costs_.key_step;
                    const int taken = std::min(int(std::clamp(room, 0.0, 1e9)), left - least_steps);
                    if (taken >= least_steps) {
                        place(i, first, taken, false);
                        first += taken;
                    }
                }
                if (!next_block()) return false;
            }
        }
        return true;
    }

    double least_deadline() const {
        double total = 0;
        for (const tile& t : tiles_) total += attend_time(t, t.steps, true);
        double low = total / shape_.blocks, high = low;
        partition p;
        if (wrap_around(low * (1 + 1e-9), p)) return low * (1 + 1e-9);
        do {
            low = high;
            high *= 2;
        } while (!wrap_around(high, p));
        for (int i = 0; i < bisections; ++i) {
            const double middle = (low + high) / 2;
            (wrap_around(middle, p) ? high : low) = middle;
        }
        return high;
    }

    timing attend(partition& p) const {
        timing now{std::vector<double>(shape_.blocks, 0.0), std::vector<double>(tiles_.size(), 0.0), {}};
        p.partials.assign(tiles_.size(), 0);
        for (const piece& one : p.pieces) {
            double& free = now.free[one.block];
            free += attend_time(tiles_[one.tile], one.steps, one.whole);
            if (one.whole) continue;
            now.ready[one.tile] = std::max(now.ready[one.tile], free);
            if (p.partials[one.tile]++ == 0) now.cut.push_back(one.tile);
        }
        return now;
    }
    // Tiles that have partials, in turn, each by as many blocks as have pieces of it: they were at work on it, and are
    // free at about the same time. `block_of` says by which a part of a tile's rows is reduced.
    template <typename BlockOf> void reduce(partition& p, timing& now, const BlockOf& block_of) const {
        int spare = reductions_a_block * shape_.blocks - int(now.cut.size());  // beyond one a tile
        for (const int i : now.cut) {
            const int rows = tiles_[i].rows, each = divide_up(rows, std::min({p.partials[i], rows, spare + 1}));
            spare -= divide_up(rows, each) - 1;
            for (int row = 0; row < rows; row += each) {
                const int block = block_of(i, row / each), end = std::min(rows, row + each);
                p.reductions.push_back({i, block, row, end});
                now.free[block] = std::max(now.free[block], now.ready[i] + costs_.hand_over) +
                                  costs_.reduce(p.partials[i], end - row);
            }
        }
        p.time = *std::max_element(now.free.begin(), now.free.end());
    }

    // Tiles in the order in which they are ready; each is reduced by the blocks that are free first.
    void reduce_by_free(partition& p) const {
        timing now = attend(p);
        std::vector<int> reduced(shape_.blocks, 0);
        std::stable_sort(now.cut.begin(), now.cut.end(), [&](int a, int b) { return now.ready[a] < now.ready[b]; });
        least_first free(now.cut.empty() ? std::vector<double>() : now.free);
        int before = -1;  // at work on the last part
        reduce(p, now, [&](int, int) {
            if (before >= 0 && reduced[before] < reductions_a_block) free.give(before, now.free[before]);
            before = free.take().second;
            ++reduced[before];
            return before;
        });
    }

    // By the block that stores the last partial; what that delays of its later pieces is left out of the estimate.
    void reduce_by_last(partition& p) const {
        const timing now = attend(p);
        p.time = *std::max_element(now.free.begin(), now.free.end());
        for (const int i : now.cut)
            p.time = std::max(p.time, now.ready[i] + costs_.hand_over + costs_.reduce(p.partials[i], tiles_[i].rows));
    }

    shape shape_;
    costs costs_;
    int attends_;  // of a block
    std::vector<tile> tiles_;
};

void write(const shape& s, const std::vector<tile>& tiles, const partition& p, bool last, std::int32_t* buffer) {
    std::vector<int> first_slot(tiles.size(), -1), counter(tiles.size(), -1);
    int slots = 0, counters = 0;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
        if (p.partials[i] == 0) continue;
        first_slot[i] = slots;
        counter[i] = counters++;
        slots += p.partials[i];
    }
    std::vector<int> used(s.blocks, 0), stored(tiles.size(), 0);
    const auto next = [&](int block, int opcode, const tile& t) {
        std::int32_t* to = buffer + header_ints + (std::int64_t(block) * s.capacity + used[block]++) * instruction_ints;
        to[field::opcode] = opcode;
        to[field::sequence] = t.sequence;
        to[field::kv_head] = t.kv_head;
        to[field::row_tile] = t.row_tile;
        return to;
    };
    for (const piece& one : p.pieces) {
        const tile& t = tiles[one.tile];
        std::int32_t* to = next(one.block, opcode::attend, t);
        to[field::first_key] = one.first_step * s.key_step;
        to[field::end_key] =
            int(std::min<std::int64_t>(t.length, std::int64_t(one.first_step + one.steps) * s.key_step));
        to[field::length] = t.length;
        to[field::slot] = one.whole ? -1 : first_slot[one.tile] + stored[one.tile]++;
        to[field::counter] = counter[one.tile];
        if (one.whole || !last) continue;
        to[field::first_slot] = first_slot[one.tile];
        to[field::slots] = p.partials[one.tile];
        to[field::last_reduces] = 1;
        to[field::end_row] = t.rows;
    }
    for (const reduction& one : p.reductions) {
        std::int32_t* to = next(one.block, opcode::reduce, tiles[one.tile]);
        to[field::slot] = -1;
        to[field::counter] = counter[one.tile];
        to[field::first_slot] = first_slot[one.tile];
        to[field::slots] = p.partials[one.tile];
        to[field::first_row] = one.first_row;
        to[field::end_row] = one.end_row;
        to[field::length] = tiles[one.tile].length;
    }
    buffer[header::counters_used] = counters;
    buffer[header::slots_used] = slots;
}

}  // namespace

int gqa_most_tile_rows() { return gqa_most_rows_per_tile; }

double make(schedule kind, const costs& costs, std::span<const std::int32_t> lengths, std::span<std::int32_t> buffer) {
    const shape s = shape_of(buffer);
    if (std::int64_t(lengths.size()) != s.batch || *std::min_element(lengths.begin(), lengths.end()) < 0)
        throw std::invalid_argument("lengths: needs " + std::to_string(s.batch) + " of them, of at least 0");
    if (s.capacity < usual_capacity(s.tiles(), s.blocks) || s.counters < s.blocks || s.slots < 2 * s.blocks)
        throw std::invalid_argument("plan: has no room for every batch of " + std::to_string(s.tiles()) + " tiles");
    std::fill(buffer.begin() + header_ints, buffer.end(), 0);
    const std::uint64_t lengths_digest = digest(lengths);
    buffer[header::digest_low] = std::int32_t(lengths_digest);
    buffer[header::digest_high] = std::int32_t(lengths_digest >> 32);
    const planner plan(s, costs, lengths);
    const partition chosen = kind == schedule::static_pieces ? plan.static_pieces() : plan.best(kind);
    write(s, plan.tiles(), chosen, kind == schedule::last, buffer.data());
    return chosen.time;
}

std::uint64_t digest(std::span<const std::int32_t> lengths) {
    std::uint64_t hash = 14695981039346656037u;
    for (const std::int32_t length : lengths) {
        for (int byte = 0; byte < 4; ++byte)
            hash = (hash ^ (std::uint32_t(length) >> (8 * byte) & 255)) * 1099511628211u;
    }
    return hash;
}

}  // namespace tk::decode_plan
