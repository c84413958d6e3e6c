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
#include <cstring>
#include <functional>
#include <numeric>
#include <queue>
#include <vector>

#include "decode_plan.h"

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
// of their keys.
struct partition {
    std::vector<piece> pieces;
    std::vector<reduction> reductions;
    double time = 0;
};

constexpr int least_steps = 2;                                   // of a piece, where a tile is cut to fill a block
constexpr int reductions_a_block = 4;                            // at most; a small capacity has fewer
constexpr double deadlines[] = {1.0, 1.1, 1.25, 1.5, 2.0, 3.0};  // tried, over the least one
constexpr int bisections = 10;

class planner {
  public:
    planner(const shape& shape, const costs& costs, std::span<const std::int32_t> lengths)
        : shape_(shape), costs_(costs) {
        const int per_block = (shape.tiles() + shape.blocks - 1) / shape.blocks;
        reductions_ = std::clamp(shape.capacity - (per_block + 1), 1, reductions_a_block);
        attends_ = shape.capacity - reductions_;
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
        partition p;
        std::vector<std::int64_t> steps(shape_.blocks, 0);
        std::vector<int> count(shape_.blocks, 0);
        least_first<std::int64_t> free(shape_.blocks);
        for (int i = 0; i < int(tiles_.size()); ++i) {
            const int pieces = std::max(1, int((tiles_[i].steps + most - 1) / most));
            cut_equally(p, i, pieces, [&](int taken) {
                const int block = free.take();
                steps[block] += taken;
                if (++count[block] < attends_) free.give(block, steps[block]);
                return block;
            });
        }
        timing now = attend(p);
        int spare = reductions_ * shape_.blocks;
        for (const int partials : now.partials) spare -= partials > 0;
        std::vector<int> reduced(shape_.blocks, 0);
        for (std::size_t first = 0; first < p.pieces.size();) {
            const int i = p.pieces[first].tile, rows = tiles_[i].rows, partials = now.partials[i];
            if (partials > 0) {
                const int parts = std::min({partials, rows, spare + 1}), each = divide_up(rows, parts);
                spare -= divide_up(rows, each) - 1;
                for (int part = 0; part * each < rows; ++part) {
                    int block = p.pieces[first + part].block;
                    while (reduced[block] == reductions_) block = (block + 1) % shape_.blocks;
                    ++reduced[block];
                    reduce(p, now, {i, block, part * each, std::min(rows, (part + 1) * each)});
                }
            }
            first += std::max(1, partials);
        }
        p.time = *std::max_element(now.free.begin(), now.free.end());
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
        offer(uncut());
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
    // The blocks, the one with the least key first; of equals the first.
    template <typename Key> class least_first {
      public:
        explicit least_first(int blocks) {
            std::vector<entry> all(blocks);
            for (int b = 0; b < blocks; ++b) all[b] = {Key(0), b};
            entries_ = queue({}, std::move(all));
        }
        int take() {
            const int block = entries_.top().second;
            entries_.pop();
            return block;
        }
        void give(int block, Key key) { entries_.push({key, block}); }

      private:
        using entry = std::pair<Key, int>;
        using queue = std::priority_queue<entry, std::vector<entry>, std::greater<entry>>;
        queue entries_;
    };

    // When each block is free, and when the last partial of each tile is stored and how many it has.
    struct timing {
        std::vector<double> free, ready;
        std::vector<int> partials;
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

    // The longest tile that is left goes to the block that is free first.
    partition uncut() const {
        partition p;
        p.pieces.reserve(tiles_.size());
        std::vector<double> used(shape_.blocks, 0.0);
        std::vector<int> count(shape_.blocks, 0);
        least_first<double> free(shape_.blocks);
        for (int i = 0; i < int(tiles_.size()); ++i) {
            const int block = free.take();
            p.pieces.push_back({i, block, 0, tiles_[i].steps, true});
            used[block] += attend_time(tiles_[i], tiles_[i].steps, true);
            if (++count[block] < attends_) free.give(block, used[block]);
        }
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

    timing attend(const partition& p) const {
        timing now{std::vector<double>(shape_.blocks, 0.0), std::vector<double>(tiles_.size(), 0.0),
                   std::vector<int>(tiles_.size(), 0)};
        for (const piece& one : p.pieces) {
            double& free = now.free[one.block];
            free += attend_time(tiles_[one.tile], one.steps, one.whole);
            if (one.whole) continue;
            now.ready[one.tile] = std::max(now.ready[one.tile], free);
            ++now.partials[one.tile];
        }
        return now;
    }
    void reduce(partition& p, timing& now, const reduction& one) const {
        p.reductions.push_back(one);
        double& free = now.free[one.block];
        free = std::max(free, now.ready[one.tile] + costs_.hand_over) +
               costs_.reduce(now.partials[one.tile], one.end_row - one.first_row);
    }

    // Tiles in the order in which they are ready; each is reduced by the blocks that are free first.
    void reduce_by_free(partition& p) const {
        timing now = attend(p);
        std::vector<int> cut;
        for (int i = 0; i < int(tiles_.size()); ++i) {
            if (now.partials[i] > 0) cut.push_back(i);
        }
        std::sort(cut.begin(), cut.end(),
                  [&](int a, int b) { return now.ready[a] != now.ready[b] ? now.ready[a] < now.ready[b] : a < b; });
        least_first<double> free(0);
        if (!cut.empty()) {
            for (int b = 0; b < shape_.blocks; ++b) free.give(b, now.free[b]);
        }
        std::vector<int> reduced(shape_.blocks, 0);
        int spare = reductions_ * shape_.blocks - int(cut.size());  // beyond one a tile
        for (const int i : cut) {
            // As many parts as it has pieces: so many blocks were at work on it, and are free at about the same time.
            const int rows = tiles_[i].rows;
            int parts = std::min({now.partials[i], rows, spare + 1});
            const int each = divide_up(rows, parts);
            parts = divide_up(rows, each);
            spare -= parts - 1;
            for (int part = 0; part < parts; ++part) {
                const int block = free.take();
                reduce(p, now, {i, block, part * each, std::min(rows, (part + 1) * each)});
                if (++reduced[block] < reductions_) free.give(block, now.free[block]);
            }
        }
        p.time = *std::max_element(now.free.begin(), now.free.end());
    }

    // By the block that stores the last partial; what that delays of its later pieces is left out of the estimate.
    void reduce_by_last(partition& p) const {
        const timing now = attend(p);
        p.time = *std::max_element(now.free.begin(), now.free.end());
        for (int i = 0; i < int(tiles_.size()); ++i) {
            if (now.partials[i] > 0)
                p.time =
                    std::max(p.time, now.ready[i] + costs_.hand_over + costs_.reduce(now.partials[i], tiles_[i].rows));
        }
    }

    shape shape_;
    costs costs_;
    int attends_, reductions_;  // instructions a block
    std::vector<tile> tiles_;
};

void write(const shape& s, const std::vector<tile>& tiles, const partition& p, bool last, std::int32_t* buffer) {
    std::vector<int> partials(tiles.size(), 0), first_slot(tiles.size(), -1), counter(tiles.size(), -1);
    for (const piece& one : p.pieces) partials[one.tile] += !one.whole;
    int slots = 0, counters = 0;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
        if (partials[i] == 0) continue;
        first_slot[i] = slots;
        counter[i] = counters++;
        slots += partials[i];
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
        to[field::slots] = partials[one.tile];
        to[field::last_reduces] = 1;
        to[field::end_row] = t.rows;
    }
    for (const reduction& one : p.reductions) {
        std::int32_t* to = next(one.block, opcode::reduce, tiles[one.tile]);
        to[field::slot] = -1;
        to[field::counter] = counter[one.tile];
        to[field::first_slot] = first_slot[one.tile];
        to[field::slots] = partials[one.tile];
        to[field::first_row] = one.first_row;
        to[field::end_row] = one.end_row;
        to[field::length] = tiles[one.tile].length;
    }
    buffer[header::counters_used] = counters;
    buffer[header::slots_used] = slots;
}

}  // namespace

double make(const shape& s, schedule kind, const costs& costs, std::span<const std::int32_t> lengths,
            std::int32_t* buffer) {
    std::memset(buffer, 0, s.ints() * sizeof(std::int32_t));
    const std::uint64_t lengths_digest = digest(lengths);
    const std::int32_t head[] = {version,
                                 s.blocks,
                                 s.capacity,
                                 s.counters,
                                 s.slots,
                                 s.rows_per_tile,
                                 s.key_step,
                                 s.batch,
                                 s.kv_heads,
                                 s.row_tiles,
                                 s.new_tokens,
                                 s.heads,
                                 std::int32_t(lengths_digest),
                                 std::int32_t(lengths_digest >> 32)};
    std::copy(std::begin(head), std::end(head), buffer);
    const planner plan(s, costs, lengths);
    const partition chosen = kind == schedule::static_pieces ? plan.static_pieces() : plan.best(kind);
    write(s, plan.tiles(), chosen, kind == schedule::last, buffer);
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
