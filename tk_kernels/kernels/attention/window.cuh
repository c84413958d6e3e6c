// Which keys a query sees, and so which tiles of keys queries walk over and which tiles of queries keys do: stated once
// for the kernels of both directions. A unit whose kernels have a window declares `windowed` in this namespace, true,
// before it includes them; the other units find the one outside.
#pragma once

#include "kittens.cuh"

namespace tk {
inline constexpr bool windowed = false;
}

namespace tk::attention {

using namespace kittens;

// Of the keys that a causal mask leaves it, a query sees the last `window`.
template <bool Windowed> struct keys_of_a_query : visible_keys {
    int window;

    static keys_of_a_query of(const visible_keys& causal, int window) { return {causal, window}; }
    // The first key that a row sees.
    kittens_host_device int from(int row) const {
        const int first = row + offset - window + 1;
        return first > 0 ? first : 0;
    }
    // The first tile of so many keys that a row and those after it see some of; the first that it and those before it
    // see whole, as far as the causal mask goes.
    kittens_host_device int first_tile(int row, int tile_keys) const { return from(row) / tile_keys; }
    kittens_host_device int first_whole(int row, int tile_keys) const {
        return (from(row) + tile_keys - 1) / tile_keys;
    }
    kittens_host_device static bool within(int tile, int first, int end) { return first <= tile && tile < end; }
    // The tile after the last of so many queries, at most `tiles`, that sees a key before `end`. The first one is
    // walked over in any case, so that keys that nothing sees have gradients too: zeros.
    kittens_host_device int queries_before(int end, int tile_queries, int tiles) const {
        const int last = end - 1 - offset + window - 1, seen = last > 0 ? last / tile_queries + 1 : 1;
        return seen < tiles ? seen : tiles;
    }
    template <register_tile Scores> kittens_device void hide(Scores& s, int row, int key,
                                                             float value = -INFINITY) const {
        if (before(row + 1) >= key + Scores::cols && from(row + Scores::rows - 1) <= key) return;
        const int last = row + offset - key, tail = keys - key, first = last - window;
        mask(s, s, [=](int r, int c) { return c <= last + r && c < tail && c > first + r; }, value);
    }
    template <int TileKeys, register_tile Scores>
    kittens_device void hide_transposed(Scores& s, int row, int tile, int key, float value = -INFINITY) const {
        if (tile + TileKeys <= before(row + 1) && from(row + Scores::cols - 1) <= tile) return;
        const int last = row + offset - key, tail = keys - key, first = last - window;
        mask(s, s, [=](int r, int c) { return r <= last + c && r < tail && r > first + c; }, value);
    }
};

template <> struct keys_of_a_query<false> : visible_keys {
    static keys_of_a_query of(const visible_keys& seen, int) { return {seen}; }
    kittens_host_device static constexpr int first_tile(int, int) { return 0; }
    kittens_host_device static constexpr int first_whole(int, int) { return 0; }
    kittens_host_device static constexpr bool within(int tile, int, int end) { return tile < end; }
    kittens_host_device static constexpr int queries_before(int, int, int tiles) { return tiles; }
};

using seen_keys = keys_of_a_query<windowed>;

}  // namespace tk::attention
