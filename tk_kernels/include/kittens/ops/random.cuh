// Random numbers by counting: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3,
// SC 2011). A word depends on the seed, the offset and the element that it is for, and on nothing else: not on which
// warp asks, nor in which order.
#pragma once

namespace kittens {

struct words {
    uint32_t word[4];
};

// Ten rounds of Philox with four words of counter and two of key.
kittens_host_device words philox(words counter, uint32_t key0, uint32_t key1) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t left = uint64_t(0xD2511F53u) * counter.word[0], right = uint64_t(0xCD9E8D57u) * counter.word[2];
        counter = {{uint32_t(right >> 32) ^ counter.word[1] ^ key0, uint32_t(right),
                    uint32_t(left >> 32) ^ counter.word[3] ^ key1, uint32_t(left)}};
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return counter;
}

// Which elements are dropped: element i has word i % 4 of Philox at counter (i / 4, offset) with the seed as key, low
// word first, and is kept where that is not below the threshold.
struct dropout {
    uint64_t seed, offset;
    uint32_t threshold;  // 2^32 times the probability of dropping
    float scale;         // of what is kept

    kittens_device words draw(int64_t first) const {
        const uint64_t quad = uint64_t(first) / 4;
        return philox({{uint32_t(quad), uint32_t(quad >> 32), uint32_t(offset), uint32_t(offset >> 32)}},
                      uint32_t(seed), uint32_t(seed >> 32));
    }
};

// dst = src with the elements dropped and what is left scaled. Element (row, col) of the lines counts as number
// first + row * pitch + col; first and pitch are multiples of 4.
template <register_lines Dst, register_lines Src>
kittens_device void drop(Dst& dst, const Src& src, const dropout& which, int64_t first, int64_t pitch = 0) {
    static_assert(Src::run == Dst::run);
    each_run(
        [&](int row, int col, auto* d, const auto* run) {
            const auto x = to_floats<Src::run>(run);
#pragma unroll
            for (int i = 0; i < Dst::run; i += 4) {
                const words drawn = which.draw(first + row * pitch + col + i);
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float kept = x.value[i + e] * which.scale;
                    d[i + e] = from_float<typename Dst::T>(drawn.word[e] < which.threshold ? 0.f : kept);
                }
            }
        },
        dst, src);
}

// 1 where `drop` keeps, 0 where it drops.
template <register_lines Dst>
kittens_device void keep_mask(Dst& dst, const dropout& which, int64_t first, int64_t pitch = 0) {
    each_run(
        [&](int row, int col, auto* d) {
#pragma unroll
            for (int i = 0; i < Dst::run; i += 4) {
                const words drawn = which.draw(first + row * pitch + col + i);
#pragma unroll
                for (int e = 0; e < 4; e++) d[i + e] = drawn.word[e] >= which.threshold;
            }
        },
        dst);
}

}  // namespace kittens
