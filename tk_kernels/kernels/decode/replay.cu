// Replays a plan's queues: is it right, and how long would it take? Host code alone.
//
// A counter only grows, so what can run in one replay can run in every one: if the queues end here, in which a block
// runs on until it awaits a signal that nobody has sent, they end at any speeds of the blocks.
#include <algorithm>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <utility>
#include <vector>

#include "decode_plan.h"

namespace tk::decode_plan {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

struct place {
    int block, index;
    std::string name() const { return "block " + text(block) + ", instruction " + text(index); }
};

struct fault {
    std::string words;
};

class queues {
  public:
    queues(const std::int32_t* buffer, const shape& s) : buffer_(buffer), shape_(s), next_(s.blocks, 0) {}

    // The instruction that a block is at, null at its queue's end.
    const std::int32_t* at(int block) const {
        if (next_[block] == shape_.capacity) return nullptr;
        const std::int64_t index = std::int64_t(block) * shape_.capacity + next_[block];
        const std::int32_t* one = buffer_ + header_ints + index * instruction_ints;
        return one[field::opcode] == opcode::stop ? nullptr : one;
    }
    place where(int block) const { return {block, next_[block]}; }
    void advance(int block) { ++next_[block]; }

  private:
    const std::int32_t* buffer_;
    const shape& shape_;
    std::vector<int> next_;
};

int tile_index(const shape& s, const std::int32_t* one) {
    return (one[field::sequence] * s.kv_heads + one[field::kv_head]) * s.row_tiles + one[field::row_tile];
}
std::string tile_name(const shape& s, int index) {
    return "sequence " + text(index / s.row_tiles / s.kv_heads) + ", kv head " +
           text(index / s.row_tiles % s.kv_heads) + ", row tile " + text(index % s.row_tiles);
}

class verification {
  public:
    verification(const std::int32_t* buffer, const shape& s, std::span<const std::int32_t> lengths)
        : shape_(s),
          lengths_(lengths),
          queues_(buffer, s),
          slot_tile_(s.slots, -1),
          signals_(s.counters, 0),
          awaited_(s.counters),
          counter_tile_(s.counters, -1),
          tiles_(s.tiles()) {}

    void run() {
        std::vector<int> runnable(shape_.blocks);
        std::iota(runnable.rbegin(), runnable.rend(), 0);
        while (!runnable.empty()) {
            const int block = runnable.back();
            runnable.pop_back();
            while (const std::int32_t* one = queues_.at(block)) {
                const place here = queues_.where(block);
                if (one[field::opcode] == opcode::attend) {
                    attend(here, one);
                    wake(one[field::counter], runnable);
                } else if (one[field::opcode] == opcode::reduce) {
                    if (!reduce(here, one)) break;
                } else {
                    throw fault{here.name() + ": opcode " + text(one[field::opcode]) + " does not exist"};
                }
                queues_.advance(block);
            }
        }
        for (int block = 0; block < shape_.blocks; ++block) {
            if (const std::int32_t* one = queues_.at(block)) {
                const int counter = one[field::counter];
                throw fault{queues_.where(block).name() + ": awaits " + text(one[field::slots]) +
                            " signals of counter " + text(counter) + " for ever, which has " + text(signals_[counter])};
            }
        }
        for (int i = 0; i < int(tiles_.size()); ++i) finish(i);
    }

  private:
    struct part {
        int first, end;
    };
    struct piece {
        int first, end, slot;
    };
    struct tile_state {
        std::vector<piece> pieces;
        std::vector<part> reduced;
        int first_slot = -1, slots = 0, counter = -1;  // as the reductions have them
        int lasts = 0;                                 // pieces of which the last to be stored reduces
    };
    struct waiting {
        int block, needed;
    };

    void require(bool right, const place& here, const std::string& words) const {
        if (!right) throw fault{here.name() + ": " + words};
    }

    tile_state& tile_of(const place& here, const std::int32_t* one) {
        const auto within = [](int value, int size) { return value >= 0 && value < size; };
        require(within(one[field::sequence], shape_.batch) && within(one[field::kv_head], shape_.kv_heads) &&
                    within(one[field::row_tile], shape_.row_tiles),
                here, "its tile does not exist");
        return tiles_[tile_index(shape_, one)];
    }
    void require_counter(const place& here, const std::int32_t* one) {
        const int counter = one[field::counter], tile = tile_index(shape_, one);
        require(counter >= 0 && counter < shape_.counters, here, "counter " + text(counter) + " does not exist");
        if (counter_tile_[counter] < 0) counter_tile_[counter] = tile;
        require(counter_tile_[counter] == tile, here,
                "counter " + text(counter) + " belongs to " + tile_name(shape_, counter_tile_[counter]));
    }

    void attend(const place& here, const std::int32_t* one) {
        tile_state& tile = tile_of(here, one);
        const int length = lengths_[one[field::sequence]], first = one[field::first_key], end = one[field::end_key];
        const int slot = one[field::slot];
        require(one[field::length] == length, here,
                "has length " + text(one[field::length]) + ", the sequence has " + text(length));
        require(first >= 0 && first <= end && end <= length && first % shape_.key_step == 0 &&
                    (end == length || end % shape_.key_step == 0),
                here, "its keys [" + text(first) + ", " + text(end) + ") are no whole steps of " + text(length));
        require(first < end || length == 0, here, "has no keys");
        tile.pieces.push_back({first, end, slot});
        if (slot == -1) {
            require(one[field::counter] == -1 && one[field::last_reduces] == 0, here,
                    "writes the output itself and still signals or reduces");
            return;
        }
        require(slot >= 0 && slot < shape_.slots, here, "slot " + text(slot) + " does not exist");
        require(slot_tile_[slot] < 0, here, "slot " + text(slot) + " is written twice");
        slot_tile_[slot] = tile_index(shape_, one);
        require_counter(here, one);
        ++signals_[one[field::counter]];
        if (one[field::last_reduces] == 0) return;
        require(one[field::last_reduces] == 1, here, "last_reduces is neither 0 nor 1");
        const int rows = shape_.rows_of(one[field::row_tile]);
        require(one[field::first_row] == 0 && one[field::end_row] == rows, here,
                "who is last reduces all " + text(rows) + " rows");
        use(here, tile, one);
        if (tile.lasts++ == 0) tile.reduced.push_back({0, rows});
    }

    // False where its signals have not all been sent yet.
    bool reduce(const place& here, const std::int32_t* one) {
        tile_state& tile = tile_of(here, one);
        require(one[field::slots] >= 1, here, "reduces nothing");
        require_counter(here, one);
        const int counter = one[field::counter];
        if (signals_[counter] < one[field::slots]) {
            awaited_[counter].push_back({here.block, one[field::slots]});
            return false;
        }
        use(here, tile, one);
        tile.reduced.push_back({one[field::first_row], one[field::end_row]});
        return true;
    }
    // All who reduce a tile name the same slots and the same counter.
    void use(const place& here, tile_state& tile, const std::int32_t* one) {
        if (tile.first_slot < 0) {
            tile.first_slot = one[field::first_slot];
            tile.slots = one[field::slots];
            tile.counter = one[field::counter];
        }
        require(tile.first_slot == one[field::first_slot] && tile.slots == one[field::slots] &&
                    tile.counter == one[field::counter],
                here, "others reduce the tile from other slots or by another counter");
    }

    void wake(int counter, std::vector<int>& runnable) {
        if (counter < 0) return;
        std::vector<waiting>& all = awaited_[counter];
        for (std::size_t i = 0; i < all.size();) {
            if (signals_[counter] < all[i].needed) {
                ++i;
                continue;
            }
            runnable.push_back(all[i].block);
            all[i] = all.back();
            all.pop_back();
        }
    }

    // What only shows when all is run: keys, slots and rows of a tile, each once.
    void finish(int index) {
        tile_state& tile = tiles_[index];
        const std::string name = tile_name(shape_, index);
        const int length = lengths_[index / shape_.row_tiles / shape_.kv_heads];
        std::vector<piece>& pieces = tile.pieces;
        std::sort(pieces.begin(), pieces.end(), [](const piece& a, const piece& b) { return a.first < b.first; });
        int end = 0;
        for (const piece& one : pieces) {
            if (one.first != end)
                throw fault{name + ": its keys from " + text(std::min(one.first, end)) + " to " +
                            text(std::max(one.first, end)) + " are attended " + (one.first > end ? "never" : "twice")};
            end = one.end;
        }
        if (pieces.empty()) throw fault{name + ": nothing attends it"};
        if (end != length)
            throw fault{name + ": its keys from " + text(end) + " to " + text(length) + " are attended never"};
        if (pieces.size() == 1 && pieces[0].slot == -1) {
            if (!tile.reduced.empty()) throw fault{name + ": is written out and reduced"};
            return;
        }
        const int count = int(pieces.size());
        if (tile.reduced.empty()) throw fault{name + ": nothing reduces it"};
        if (tile.lasts != 0 && tile.lasts != count)
            throw fault{name + ": " + text(count - tile.lasts) +
                        " of its attends would not reduce it if they were last"};
        if (tile.slots != count)
            throw fault{name + ": has " + text(count) + " partials and " + text(tile.slots) + " are awaited"};
        for (int i = 0; i < count; ++i) {
            if (pieces[i].slot != tile.first_slot + i)
                throw fault{name + ": its partial " + text(i) + " is in slot " + text(pieces[i].slot) + ", not in " +
                            text(tile.first_slot + i)};
        }
        if (signals_[tile.counter] != count)
            throw fault{name + ": counter " + text(tile.counter) + " gets " + text(signals_[tile.counter]) + " of " +
                        text(count) + " signals"};
        std::sort(tile.reduced.begin(), tile.reduced.end(), [](part a, part b) { return a.first < b.first; });
        int row = 0;
        for (const part& one : tile.reduced) {
            if (one.first != row || one.end <= one.first)
                throw fault{name + ": its rows from " + text(std::min(one.first, row)) + " on are reduced " +
                            (one.first > row ? "never" : "twice")};
            row = one.end;
        }
        if (row != shape_.rows_of(index % shape_.row_tiles))
            throw fault{name + ": its rows from " + text(row) + " on are not all reduced"};
    }

    const shape& shape_;
    std::span<const std::int32_t> lengths_;
    queues queues_;
    std::vector<int> slot_tile_, signals_;
    std::vector<std::vector<waiting>> awaited_;
    std::vector<int> counter_tile_;
    std::vector<tile_state> tiles_;
};

// As its header has them.
shape sizes_of(const std::int32_t* buffer) {
    return {buffer[header::blocks],     buffer[header::capacity],      buffer[header::counters],
            buffer[header::slots],      buffer[header::rows_per_tile], buffer[header::key_step],
            buffer[header::batch],      buffer[header::kv_heads],      buffer[header::row_tiles],
            buffer[header::new_tokens], buffer[header::heads]};
}

}  // namespace

shape shape_of(const std::int32_t* buffer, std::int64_t ints) {
    const auto refuse = [](const std::string& words) { throw std::invalid_argument("plan: " + words); };
    if (ints < header_ints) refuse("got " + text(ints) + " ints, a header alone has " + text(header_ints));
    if (buffer[header::version] != version)
        refuse("is of version " + text(buffer[header::version]) + ", needs " + text(version));
    const shape s = sizes_of(buffer);
    for (int i = header::blocks; i <= header::heads; ++i) {
        if (buffer[i] < 1) refuse("has " + text(buffer[i]) + " at " + text(i) + " of its header, needs 1 or more");
    }
    if (s.ints() != ints) refuse("has " + text(ints) + " ints, its header says " + text(s.ints()));
    if (s.heads % s.kv_heads != 0 || s.row_tiles != (s.rows() + s.rows_per_tile - 1) / s.rows_per_tile)
        refuse("its header's heads, new tokens and row tiles contradict each other");
    return s;
}

std::string verify(const std::int32_t* buffer, std::int64_t ints, std::span<const std::int32_t> lengths) {
    try {
        const shape s = shape_of(buffer, ints);
        if (std::int64_t(lengths.size()) != s.batch)
            return "plan: is for " + text(s.batch) + " sequences, got " + text(lengths.size());
        const std::uint64_t wanted = digest(lengths);
        if (buffer[header::digest_low] != std::int32_t(wanted) ||
            buffer[header::digest_high] != std::int32_t(wanted >> 32))
            return "plan: was made for other lengths";
        verification(buffer, s, lengths).run();
    } catch (const fault& found) {
        return found.words;
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

double predict(const std::int32_t* buffer, const costs& costs) {
    const shape s = sizes_of(buffer);
    queues all(buffer, s);
    std::vector<int> signals(s.counters, 0);
    std::vector<double> signalled(s.counters, 0.0);  // last
    std::vector<std::vector<int>> parked(s.counters);
    using event = std::pair<double, int>;  // a block ends its instruction
    std::priority_queue<event, std::vector<event>, std::greater<event>> events;
    double end = 0;
    const auto reduction = [&](const std::int32_t* one) {
        return costs.reduce(one[field::slots], one[field::end_row] - one[field::first_row]);
    };
    const auto begin = [&](int block, double now) {
        const std::int32_t* one = all.at(block);
        end = std::max(end, now);
        if (one == nullptr) return;
        if (one[field::opcode] == opcode::attend) {
            const int steps = (one[field::end_key] - one[field::first_key] + s.key_step - 1) / s.key_step;
            const double time = costs.attend(steps, s.rows_of(one[field::row_tile]), one[field::slot] < 0);
            events.push({now + time, block});
        } else if (signals[one[field::counter]] >= one[field::slots]) {
            events.push({std::max(now, signalled[one[field::counter]] + costs.hand_over) + reduction(one), block});
        } else {
            parked[one[field::counter]].push_back(block);
        }
    };
    std::vector<double> free(s.blocks, 0.0);
    for (int block = 0; block < s.blocks; ++block) begin(block, 0.0);
    while (!events.empty()) {
        const auto [now, block] = events.top();
        events.pop();
        const std::int32_t* one = all.at(block);
        const int counter = one[field::opcode] == opcode::attend ? one[field::counter] : -1;
        double done = now;
        if (counter >= 0) {
            ++signals[counter];
            signalled[counter] = now;
            if (one[field::last_reduces] == 1 && signals[counter] == one[field::slots])
                done += costs.hand_over + reduction(one);
        }
        all.advance(block);
        free[block] = done;
        if (counter >= 0) {
            for (const int waiter : std::exchange(parked[counter], {})) begin(waiter, free[waiter]);
        }
        begin(block, done);
    }
    return end;
}

}  // namespace tk::decode_plan
