// Makes the program of a token. Plain C++, for the host.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "layout.h"

namespace tk::llama_decode {

// Where each block's run of an operation begins, in pages, and the end. Runs are equal but for one unit: a page, or a
// row block where results need its whole sums. Units left over go to the blocks with the fewest pages so far.
inline std::vector<int> runs(const shape& s, int op, std::vector<std::int64_t>& pages) {
    const int blocks = int(pages.size()), unit = op == opcode::gate_up || op == opcode::head ? s.steps(op) : 1;
    const int units = s.pages(op) / unit;
    std::vector<int> order(blocks), begins(blocks + 1, 0);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return pages[a] < pages[b]; });
    std::vector<int> count(blocks, units / blocks);
    for (int i = 0; i < units % blocks; ++i) ++count[order[i]];
    for (int block = 0; block < blocks; ++block) {
        begins[block + 1] = begins[block] + count[block] * unit;
        pages[block] += count[block] * unit;
    }
    return begins;
}

// The slot of each block's first row block: how many blocks before it have pages of that.
inline std::vector<int> slots_of(const std::vector<int>& begins, int steps) {
    std::vector<int> found(begins.size() - 1, 0);
    for (std::size_t block = 0; block < found.size(); ++block) {
        if (begins[block + 1] == begins[block]) continue;
        for (std::size_t before = block; before-- > 0 && begins[before + 1] > begins[block] / steps * steps;)
            found[block] += begins[before + 1] > begins[before];
    }
    return found;
}

// Fills in a program whose header has blocks and shape, up to `batch`: the rest of the header, and the queues. Of a
// buffer of header_ints it makes the header alone, which says how many ints a program has.
inline void make(std::span<std::int32_t> buffer) {
    const int blocks = buffer[header::blocks];
    shape s(buffer.data());
    s.splits = std::clamp(blocks / (s.batch * s.kv_heads), 1, most_splits);
    const int counters = 5 * s.layers + 1, capacity = s.layers * (4 + (s.attends() + blocks - 1) / blocks) + 1;
    std::vector<std::int64_t> pages(blocks, 0);
    int most[opcode::head + 1] = {};
    std::vector<int> done(blocks, 0);
    const bool whole = std::int64_t(buffer.size()) == header_ints + std::int64_t(blocks) * capacity * instruction_ints;
    const auto put = [&](int block) {
        auto* one = buffer.data() + header_ints + (std::int64_t(block) * capacity + done[block]++) * instruction_ints;
        std::fill(one, one + instruction_ints, 0);
        return one;
    };
    for (int layer = 0; layer <= s.layers; ++layer)
        for (int op = layer < s.layers ? opcode::qkv : opcode::head;
             op <= (layer < s.layers ? opcode::down : opcode::head); ++op) {
            const int n = 5 * layer + (op == opcode::head ? 0 : op - 1);
            const bool behind_attend = op == opcode::out;
            const auto common = [&](std::int32_t* one) {
                one[field::opcode] = op, one[field::layer] = op == opcode::head ? 0 : layer;
                one[field::signals] = n, one[field::at_least] = behind_attend ? s.attends() : blocks;
                if (n == 0) one[field::at_least] = 0;
            };
            if (op == opcode::attend) {
                for (int i = 0; i < s.attends() && whole; ++i) {
                    auto* one = put(i % blocks);
                    common(one);
                    one[field::split] = i % s.splits, one[field::kv_head] = i / s.splits % s.kv_heads;
                    one[field::sequence] = i / s.splits / s.kv_heads;
                }
                continue;
            }
            const std::vector<int> begins = runs(s, op, pages), slot = slots_of(begins, s.steps(op));
            most[op] = std::max(most[op], 1 + *std::max_element(slot.begin(), slot.end()));
            for (int block = 0; block < blocks && whole; ++block) {
                auto* one = put(block);
                common(one);
                one[field::first] = begins[block], one[field::count] = begins[block + 1] - begins[block];
                one[field::slot] = slot[block];
            }
        }
    for (int block = 0; block < blocks && whole; ++block)
        while (done[block] < capacity) put(block);
    buffer[header::version] = version, buffer[header::capacity] = capacity, buffer[header::counters] = counters;
    buffer[header::splits] = s.splits, buffer[header::projected_slots] = most[opcode::qkv];
    buffer[header::added_slots] = std::max(most[opcode::out], most[opcode::down]);
}

}  // namespace tk::llama_decode
