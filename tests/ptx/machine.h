// What translated PTX (translate.py) runs on: warps whose lanes each have a place of their own in the program, blocks
// with shared memory, barriers and mbarriers, copies that land late. Warps take turns at random, and so do copies, so
// that a missing wait shows; an address that is out of bounds or not aligned ends the process with a sentence.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

namespace ptx {

constexpr int lanes = 32;
constexpr uint32_t all_lanes = ~0u;

[[noreturn]] void fail(const char* what);

struct block;
struct warp;

// A piece of a program without a branch or a barrier in its middle. It runs for the lanes that have come to it and says
// where each goes on; false: nothing was done, because it waits for other lanes or for a barrier.
using piece = bool (*)(warp&, uint32_t active);

struct program {
    const char* name;
    int predicates, halves, words, doubles;  // registers of each width
    const piece* pieces;
};
void add(const program& p);
struct addition {
    explicit addition(const program& p) { add(p); }
};

// What a lane has asked for and has not happened: a copy of 16 bytes (those after `bytes` become zero), an arrival that
// waits for the copies before it, or the end of a group.
struct late {
    enum { copy, arrival, group_end } kind;
    uint32_t to;
    uint64_t from;
    int bytes;
};

struct barrier {
    int arrived = 0, generation = 0;
};

struct warp {
    block* of;
    int index;
    const program* runs;
    const char* parameters;
    uint32_t live = all_lanes;
    int at[lanes] = {};
    bool yields = false;      // it has looked at something that others must change
    bool inside[16] = {};     // a barrier, which it has reached
    int generation[16] = {};  // of each barrier when it did
    std::vector<uint32_t> p;  // a predicate's bits, a lane each
    std::vector<uint16_t> h;  // 32 lanes of each register
    std::vector<uint32_t> r;
    std::vector<uint64_t> d;
    std::deque<late> under_way[lanes];
    int groups[lanes] = {};

    uint32_t thread(int lane) const { return uint32_t(lanes * index + lane); }
    void go(uint32_t active, int to) {
        for (int l = 0; l < lanes; l++)
            if (active >> l & 1) at[l] = to;
    }
};

struct block {
    int index, count, threads;
    std::vector<warp> warps;
    std::vector<uint8_t> shared;
    barrier barriers[16];
    uint64_t state;  // of its random numbers

    uint32_t random(uint32_t below) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return uint32_t(state >> 20) % below;
    }
};

// --- numbers --------------------------------------------------------------------------------------------------------
inline float real(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
inline uint32_t bits(float x) {
    uint32_t y;
    memcpy(&y, &x, 4);
    return y;
}
inline float real_of_bf16(uint32_t half) { return real(half << 16); }
inline uint32_t to_bf16(float x) {
    if (x != x) return 0x7fff;
    const uint32_t y = bits(x);
    return (y + 0x7fff + (y >> 16 & 1)) >> 16;
}
inline uint32_t pair_of_bf16(float high, float low) { return to_bf16(high) << 16 | to_bf16(low); }
inline float add_towards_zero(float x, float y) {
    const double exact = double(x) + y;
    const float near = float(exact);
    return std::fabs(double(near)) > std::fabs(exact) ? std::nextafter(near, 0.f) : near;
}
inline uint32_t insert_bits(uint32_t from, uint32_t into, uint32_t at, uint32_t count) {
    const uint32_t mask = ((count >= 32 ? 0 : 1u << count) - 1) << at;
    return (into & ~mask) | (from << at & mask);
}
inline uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t which) {
    const uint64_t both = uint64_t(high) << 32 | low;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t pick = which >> 4 * i & 15, byte = both >> 8 * (pick & 7) & 255;
        result |= (pick & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return result;
}

// --- memory ---------------------------------------------------------------------------------------------------------
uint8_t* shared(warp& w, uint64_t address, int bytes);
uint8_t* global(uint64_t address, int bytes);

void start_copy(warp& w, int lane, uint32_t to, uint64_t from, int bytes);
void arrive_after_copies(warp& w, int lane, uint32_t mbarrier);
void end_group(warp& w, int lane);
void wait_for_groups(warp& w, int lane, int pending);
bool land_one(warp& w, int lane);

// --- semaphores and barriers ----------------------------------------------------------------------------------------
void init_mbarrier(warp& w, uint32_t address, uint32_t count);
void arrive_mbarrier(warp& w, uint32_t address);
bool test_mbarrier(warp& w, uint32_t address, uint32_t parity);
bool sync_barrier(warp& w, int id, int threads);
void arrive_barrier(warp& w, int id, int threads);

// --- by a whole warp; registers by their numbers ---------------------------------------------------------------------
constexpr int zero_register = -1;
struct quad {
    int of[4];
};
void multiply(warp& w, quad d, quad a, int b0, int b1, quad c);  // m16n8k16, bf16, sums in fp32
void load_matrices(warp& w, quad d, int address, bool transposed);
void transpose_matrix(warp& w, int d, int a);
enum shuffle { by_index, by_xor, from_below, from_above };
// Predicates of who had a source within its segment.
uint32_t exchange(warp& w, shuffle how, int d, int a, const uint32_t (&b)[lanes], const uint32_t (&c)[lanes]);

// Runs blocks of a grid, some at a time; all at once if `together`.
void run_grid(const program& p, int blocks, int threads, size_t shared_bytes, const void* parameters, bool together);
const program* find(const char* name);

}  // namespace ptx
