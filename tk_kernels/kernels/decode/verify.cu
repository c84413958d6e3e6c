// What is wrong with a plan? Host code alone.
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kittens/program/check.h"

#include "decode_plan.h"

namespace tk::decode_plan {
namespace {

using kittens::program::name_of, kittens::program::exchange;

std::string text(std::int64_t number) { return std::to_string(number); }

struct fault {
    std::string words;
};

// The pieces and reductions of tiles, from all queues: each key, slot, counter and row once.
class coverage {
  public:
    coverage(const std::int32_t* buffer, const shape& s, std::span<const std::int32_t> lengths)
        : shape_(s), lengths_(lengths), tiles_(s.tiles()), slot_used_(s.slots), counter_used_(s.counters) {
        for (int block = 0; block < s.blocks; ++block)
            for (int i = 0; i < s.capacity; ++i) {
                const std::int32_t* one =
                    buffer + header_ints + (std::int64_t(block) * s.capacity + i) * instruction_ints;
                if (one[field::opcode] == opcode::stop) break;
                add(one, name_of(block, i));
            }
        for (int i = 0; i < int(tiles_.size()); ++i) require_whole(i);
    }

  private:
    struct tile {
        std::vector<const std::int32_t*> attends, reductions;
    };

    static void require(bool right, const std::string& where, const std::string& words) {
        if (!right) throw fault{where + ": " + words};
    }

    void add(const std::int32_t* one, const std::string& here) {
        const auto within = [](int value, int size) { return value >= 0 && value < size; };
        const int opcode = one[field::opcode], first = one[field::first_key], end = one[field::end_key];
        require(opcode == opcode::attend || opcode == opcode::reduce, here,
                "opcode " + text(opcode) + " does not exist");
        require(within(one[field::sequence], shape_.batch) && within(one[field::kv_head], shape_.kv_heads) &&
                    within(one[field::row_tile], shape_.row_tiles),
                here, "its tile does not exist");
        tile& of = tiles_[(one[field::sequence] * shape_.kv_heads + one[field::kv_head]) * shape_.row_tiles +
                          one[field::row_tile]];
        if (opcode == opcode::reduce) return of.reductions.push_back(one);
        of.attends.push_back(one);
        const int length = lengths_[one[field::sequence]];
        require(one[field::length] == length, here,
                "has length " + text(one[field::length]) + ", the sequence has " + text(length));
        require(first >= 0 && first <= end && end <= length && first % shape_.key_step == 0 &&
                    (end == length || end % shape_.key_step == 0),
                here, "its keys [" + text(first) + ", " + text(end) + ") are no whole steps of " + text(length));
        require(first < end || length == 0, here, "has no keys");
    }

    void require_whole(int index) {
        tile& of = tiles_[index];
        const int head = index / shape_.row_tiles, length = lengths_[head / shape_.kv_heads];
        const int rows = shape_.rows_of(index % shape_.row_tiles), count = int(of.attends.size());
        const std::string name = "sequence " + text(head / shape_.kv_heads) + ", kv head " +
                                 text(head % shape_.kv_heads) + ", row tile " + text(index % shape_.row_tiles);
        require(count > 0, name, "nothing attends it");
        require_each_once(of.attends, field::first_key, field::end_key, length, name, "keys", "attended");
        if (count == 1 && of.attends[0][field::slot] == -1) {
            require(
                of.attends[0][field::counter] == -1 && of.attends[0][field::last_reduces] == 0 && of.reductions.empty(),
                name, "is written out and signalled or reduced");
            return;
        }
        const bool last = of.reductions.empty();  // to signal reduces
        const std::vector<const std::int32_t*>& reducing = last ? of.attends : of.reductions;
        const int first_slot = reducing[0][field::first_slot], counter = reducing[0][field::counter];
        for (int i = 0; i < count; ++i) {
            const std::int32_t* one = of.attends[i];
            require(one[field::last_reduces] == last, name,
                    last ? "nothing reduces it, should its piece " + text(i) + " be the last" : "is reduced twice");
            require(one[field::slot] == first_slot + i && one[field::counter] == counter, name,
                    "its partial " + text(i) + " goes to slot " + text(one[field::slot]) + " and counter " +
                        text(one[field::counter]) + ", not to " + text(first_slot + i) + " and " + text(counter));
            claim(slot_used_, first_slot + i, name, "slot ");
        }
        claim(counter_used_, counter, name, "counter ");
        for (const std::int32_t* one : reducing)
            require(
                one[field::first_slot] == first_slot && one[field::slots] == count && one[field::counter] == counter,
                name,
                "has " + text(count) + " partials from " + text(first_slot) + " on, and " + text(one[field::slots]) +
                    " from " + text(one[field::first_slot]) + " on are reduced");
        std::vector<const std::int32_t*> parts = of.reductions;
        if (last) {
            for (const std::int32_t* one : of.attends)
                require(one[field::first_row] == 0 && one[field::end_row] == rows, name,
                        "who is last reduces all " + text(rows) + " rows");
            parts = {of.attends[0]};
        }
        require_each_once(parts, field::first_row, field::end_row, rows, name, "rows", "reduced");
    }

    // Of [0, size), in parts, which it sorts.
    static void require_each_once(std::vector<const std::int32_t*>& parts, int first, int end, int size,
                                  const std::string& name, const std::string& what, const std::string& done) {
        std::sort(parts.begin(), parts.end(),
                  [=](const std::int32_t* a, const std::int32_t* b) { return a[first] < b[first]; });
        int at = 0;
        for (const std::int32_t* one : parts) {
            require(one[first] == at && (one[end] > at || size == 0), name,
                    "its " + what + " from " + text(std::min(one[first], at)) + " on are " + done +
                        (one[first] > at ? " never" : " twice"));
            at = one[end];
        }
        require(at == size, name,
                "its " + what + " from " + text(at) + " to " + text(size) + " are " + done +
                    (at < size ? " never" : ", and do not exist"));
    }

    static void claim(std::vector<bool>& used, int index, const std::string& name, const std::string& what) {
        require(index >= 0 && index < int(used.size()), name, what + text(index) + " does not exist");
        require(!used[index], name, what + text(index) + " is another tile's too");
        used[index] = true;
    }

    const shape& shape_;
    std::span<const std::int32_t> lengths_;
    std::vector<tile> tiles_;
    std::vector<bool> slot_used_, counter_used_;
};

exchange exchange_of(const std::int32_t* one) {
    if (one[field::opcode] == opcode::reduce) return {.awaits = one[field::counter], .at_least = one[field::slots]};
    return {.signals = one[field::counter], .in_all = one[field::last_reduces] ? one[field::slots] : 0};
}

}  // namespace

shape shape_of(std::span<const std::int32_t> buffer) {
    const auto ints = std::int64_t(buffer.size());
    const auto refuse = [](const std::string& words) { throw std::invalid_argument("plan: " + words); };
    if (ints < header_ints) refuse("got " + text(ints) + " ints, a header alone has " + text(header_ints));
    if (buffer[header::version] != version)
        refuse("is of version " + text(buffer[header::version]) + ", needs " + text(version));
    for (int i = header::blocks; i <= header::heads; ++i) {
        if (buffer[i] < 1) refuse("has " + text(buffer[i]) + " at " + text(i) + " of its header, needs 1 or more");
    }
    shape s;
    static_assert(sizeof(s) == (header::heads - header::blocks + 1) * sizeof(std::int32_t));
    std::memcpy(&s, &buffer[header::blocks], sizeof(s));
    if (s.ints() != ints) refuse("has " + text(ints) + " ints, its header says " + text(s.ints()));
    if (s.heads % s.kv_heads != 0 || s.row_tiles != (s.rows() + s.rows_per_tile - 1) / s.rows_per_tile)
        refuse("its header's heads, new tokens and row tiles contradict each other");
    return s;
}

std::string verify(std::span<const std::int32_t> buffer, std::span<const std::int32_t> lengths) {
    try {
        const shape s = shape_of(buffer);
        if (std::int64_t(lengths.size()) != s.batch)
            return "plan: is for " + text(s.batch) + " sequences, got " + text(lengths.size());
        const std::uint64_t wanted = digest(lengths);
        if (buffer[header::digest_low] != std::int32_t(wanted) ||
            buffer[header::digest_high] != std::int32_t(wanted >> 32))
            return "plan: was made for other lengths";
        coverage(buffer.data(), s, lengths);
        return kittens::program::check(buffer.data(), exchange_of);
    } catch (const fault& found) {
        return found.words;
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
}

}  // namespace tk::decode_plan
