#include "machine.h"

#include <map>
#include <memory>
#include <string>

namespace ptx {

void fail(const char* what) {
    fprintf(stderr, "interpreted PTX: %s\n", what);
    abort();
}

static std::map<std::string, program>& programs() {
    static std::map<std::string, program> all;
    return all;
}
void add(const program& p) { programs()[p.name] = p; }
const program* find(const char* name) {
    const auto found = programs().find(name);
    return found == programs().end() ? nullptr : &found->second;
}

// --- memory ---------------------------------------------------------------------------------------------------------
uint8_t* shared(warp& w, uint64_t address, int bytes) {
    if (address + bytes > w.of->shared.size()) fail("an address beyond the block's shared memory");
    if (address % bytes != 0) fail("an address in shared memory that is not aligned");
    return w.of->shared.data() + address;
}
uint8_t* global(uint64_t address, int bytes) {
    if (address % bytes != 0) fail("a global address that is not aligned");
    return reinterpret_cast<uint8_t*>(address);
}

void start_copy(warp& w, int lane, uint32_t to, uint64_t from, int bytes) {
    if (bytes > 0 && from % 16 != 0) fail("cp.async from an address that is not aligned");
    shared(w, to, 16);
    w.under_way[lane].push_back({late::copy, to, from, bytes});
}
// Adds an arrival now, and makes it when the lane's copies have landed: the count stays as it was.
void arrive_after_copies(warp& w, int lane, uint32_t mbarrier) {
    *reinterpret_cast<uint64_t*>(shared(w, mbarrier, 8)) += 1;
    w.under_way[lane].push_back({late::arrival, mbarrier, 0, 0});
}
void end_group(warp& w, int lane) {
    w.under_way[lane].push_back({late::group_end, 0, 0, 0});
    w.groups[lane]++;
}
void wait_for_groups(warp& w, int lane, int pending) {
    while (w.groups[lane] > pending) land_one(w, lane);
}
bool land_one(warp& w, int lane) {
    if (w.under_way[lane].empty()) return false;
    const late next = w.under_way[lane].front();
    w.under_way[lane].pop_front();
    if (next.kind == late::arrival) arrive_mbarrier(w, next.to);
    else if (next.kind == late::group_end) w.groups[lane]--;
    else {
        uint8_t* const to = shared(w, next.to, 16);
        if (next.bytes > 0) memcpy(to, reinterpret_cast<const void*>(next.from), next.bytes);
        memset(to + next.bytes, 0, 16 - next.bytes);
    }
    return true;
}

// --- semaphores and barriers ----------------------------------------------------------------------------------------
// An mbarrier: arrivals missing in this phase, those of a phase, the phase.
constexpr int count_bits = 20;
constexpr uint64_t count_mask = (1 << count_bits) - 1;

void init_mbarrier(warp& w, uint32_t address, uint32_t count) {
    *reinterpret_cast<uint64_t*>(shared(w, address, 8)) = count | uint64_t(count) << count_bits;
}
void arrive_mbarrier(warp& w, uint32_t address) {
    uint64_t& state = *reinterpret_cast<uint64_t*>(shared(w, address, 8));
    uint64_t missing = state & count_mask, phase = state >> 2 * count_bits;
    const uint64_t all = state >> count_bits & count_mask;
    if (missing == 0) fail("an mbarrier with one arrival too many");
    if (--missing == 0) missing = all, phase ^= 1;
    state = missing | all << count_bits | phase << 2 * count_bits;
}
bool test_mbarrier(warp& w, uint32_t address, uint32_t parity) {
    const bool over = (*reinterpret_cast<uint64_t*>(shared(w, address, 8)) >> 2 * count_bits) != (parity & 1);
    if (!over) w.yields = true;
    return over;
}
void arrive_barrier(warp& w, int id, int threads) {
    barrier& b = w.of->barriers[id];
    b.arrived += lanes;
    if (b.arrived > threads) fail("a barrier with one warp too many");
    if (b.arrived == threads) b.arrived = 0, b.generation++;
}
bool sync_barrier(warp& w, int id, int threads) {
    const barrier& b = w.of->barriers[id];
    if (!w.inside[id]) {
        w.inside[id] = true;
        w.generation[id] = b.generation;
        arrive_barrier(w, id, threads);
    }
    if (b.generation == w.generation[id]) return false;
    w.inside[id] = false;
    return true;
}

// --- by a whole warp ------------------------------------------------------------------------------------------------
// Where a lane's elements are: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".
void multiply(warp& w, quad d, quad a, int b0, int b1, quad c) {
    float x[16][16], y[16][8], sum[16][8];
    const auto word = [&](int which, int lane) { return which == zero_register ? 0 : w.r[lanes * which + lane]; };
    for (int lane = 0; lane < lanes; lane++) {
        const int group = lane / 4, two = 2 * (lane % 4);
        for (int i = 0; i < 4; i++) {
            const uint32_t pair = word(a.of[i], lane);
            float* const row = x[group + 8 * (i % 2)] + two + 8 * (i / 2);
            row[0] = real_of_bf16(pair & 0xffff), row[1] = real_of_bf16(pair >> 16);
            sum[group + 8 * (i / 2)][two + i % 2] = real(word(c.of[i], lane));
        }
        for (int i = 0; i < 2; i++) {
            const uint32_t pair = word(i == 0 ? b0 : b1, lane);
            y[two + 8 * i][group] = real_of_bf16(pair & 0xffff), y[two + 8 * i + 1][group] = real_of_bf16(pair >> 16);
        }
    }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            float product = 0;
            for (int k = 0; k < 16; k++) product += x[i][k] * y[k][j];
            sum[i][j] += product;
        }
    for (int lane = 0; lane < lanes; lane++)
        for (int i = 0; i < 4; i++)
            w.r[lanes * d.of[i] + lane] = bits(sum[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2]);
}

using matrix = uint16_t[8][8];
static uint32_t element_pair(const matrix& m, int lane, bool transposed) {
    const int row = lane / 4, col = 2 * (lane % 4);
    return transposed ? m[col][row] | uint32_t(m[col + 1][row]) << 16 : m[row][col] | uint32_t(m[row][col + 1]) << 16;
}
void load_matrices(warp& w, quad d, int address, bool transposed) {
    matrix m[4];
    for (int lane = 0; lane < lanes; lane++)
        memcpy(m[lane / 8][lane % 8], shared(w, w.r[lanes * address + lane], 16), 16);
    for (int i = 0; i < 4; i++)
        for (int lane = 0; lane < lanes; lane++) w.r[lanes * d.of[i] + lane] = element_pair(m[i], lane, transposed);
}
void transpose_matrix(warp& w, int d, int a) {
    matrix m;
    for (int lane = 0; lane < lanes; lane++) memcpy(m[lane / 4] + 2 * (lane % 4), &w.r[lanes * a + lane], 4);
    for (int lane = 0; lane < lanes; lane++) w.r[lanes * d + lane] = element_pair(m, lane, true);
}

// PTX ISA, shfl.sync: c has the segment's mask above its clamp.
uint32_t exchange(warp& w, shuffle how, int d, int a, const uint32_t (&b)[lanes], const uint32_t (&c)[lanes]) {
    uint32_t values[lanes], good = 0;
    for (int lane = 0; lane < lanes; lane++) {
        const int by = b[lane] & 31, segment = c[lane] >> 8 & 31, first = lane & segment;
        const int last = first | (c[lane] & 31 & ~segment);
        int from = how == by_index ? first | (by & ~segment) : how == by_xor ? lane ^ by : lane + by;
        if (how == from_below) from = lane - by;
        const bool inside = how == from_below ? from >= last : from <= last;
        if (!inside) from = lane;
        good |= uint32_t(inside) << lane;
        values[lane] = w.r[lanes * a + from];
    }
    memcpy(&w.r[lanes * d], values, sizeof values);
    return good;
}

// --- blocks ---------------------------------------------------------------------------------------------------------
// Lets a warp run for a while; false if none of its lanes could. Those that are furthest behind come first, so that
// lanes meet again where their ways join.
static bool run_some(warp& w) {
    constexpr int pieces = 400;
    bool ran = false;
    w.yields = false;
    for (int i = 0; i < pieces && w.live && !w.yields; i++) {
        bool stuck = true;
        for (uint32_t left = w.live; left != 0 && stuck;) {
            int at = INT32_MAX;
            uint32_t active = 0;
            for (int l = 0; l < lanes; l++)
                if (left >> l & 1) at = std::min(at, w.at[l]);
            for (int l = 0; l < lanes; l++)
                if ((left >> l & 1) && w.at[l] == at) active |= 1u << l;
            left &= ~active;
            stuck = !w.runs->pieces[at](w, active);
        }
        if (stuck) break;
        ran = true;
    }
    return ran;
}

static std::unique_ptr<block> new_block(const program& p, int index, int count, int threads, size_t shared_bytes,
                                        const void* parameters) {
    static uint64_t seed = getenv("PTX_SEED") ? strtoull(getenv("PTX_SEED"), nullptr, 10) : 0;
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    auto b = std::make_unique<block>();
    b->index = index, b->count = count, b->threads = threads, b->state = seed | 1;
    b->shared.assign(shared_bytes, 0x7f);  // nonsense, and as bf16 or fp32 almost too large
    b->warps.resize((threads + lanes - 1) / lanes);
    for (size_t i = 0; i < b->warps.size(); i++) {
        warp& w = b->warps[i];
        w.of = b.get(), w.index = int(i), w.runs = &p, w.parameters = static_cast<const char*>(parameters);
        w.p.assign(p.predicates, 0), w.h.assign(lanes * p.halves, 0x5a5a);
        w.r.assign(lanes * p.words, 0x5a5a5a5a), w.d.assign(lanes * p.doubles, 0x5a5a5a5a5a5a5a5a);
    }
    return b;
}

void run_grid(const program& p, int blocks, int threads, size_t shared_bytes, const void* parameters, bool together) {
    constexpr int at_once = 4, patience = 2000;
    if (threads % lanes != 0) fail("a block of no whole warps");
    for (int first = 0; first < blocks;) {
        std::vector<std::unique_ptr<block>> now;
        for (; first < blocks && (together || int(now.size()) < at_once); first++)
            now.push_back(new_block(p, first, blocks, threads, shared_bytes, parameters));
        bool alive = true;
        for (int idle = 0; alive; idle++) {
            alive = false;
            for (auto& b : now) {
                for (warp& w : b->warps) {
                    if (w.live) alive = true;
                    if (w.live && b->random(4) > 0 && run_some(w)) idle = 0;
                    for (int l = 0; l < lanes; l++) {
                        if (w.under_way[l].empty()) continue;
                        alive = true;
                        if (b->random(8) > 0) continue;
                        for (uint32_t i = b->random(6) + 1; i > 0 && land_one(w, l); i--) idle = 0;
                    }
                }
            }
            if (idle > patience) fail("no warp can go on");
        }
    }
}

}  // namespace ptx
