// What Hedgehog's kernels share: the sizes, which blocks of a sequence a task has, a warp's part of the state, the
// window's weights.
#pragma once

#include "kittens.cuh"

#include "hedgehog.h"

namespace tk::hedgehog {

using namespace kittens;

constexpr int rows = 64, dim = 128, features = 64;             // of a block; of q, k and v; of each sign of the map
constexpr float window_scale = log2_e * 0.08838834764831845f;  // 1 / sqrt(128), for powers of two
constexpr float least_feature = 1e-6f, normaliser_offset = 1e-6f;

using tile = st_bf<rows, dim>;
using map_tile = st_bf<dim, features>;
using strip = st_bf<16, dim>;
using ones_tile = st_bf<16, rows>;
using block_scores = rt_fl<16, rows>;
using rows_vec = block_scores::col_vec;
template <typename T> struct signs {  // of the map
    T plus, minus;
};
using state_list = linear_states<2 * features, dim>;

struct task {
    int sequence, batch, head, segment;
    int first, begin, end;  // blocks: loaded from `first` to `end`, answered from `begin`
    int add;                // the blocks before the one before this one enter the state
};

// Which blocks of which sequence are computed when: sequences in segments of equal length, the last one shorter.
struct segment_order {
    int blocks, per_segment, tasks;  // blocks of a sequence, of a segment; tasks in all
    divisor segments, heads;         // segments of a sequence that are computed
};

// The task `index`, if there is one.
template <bool answers, typename Globals> kittens_device bool find_task(task& t, const Globals& g, int index) {
    const segment_order& order = g.order;
    if (index >= order.tasks) return false;
    t.sequence = order.segments.divide(index);
    t.segment = index - t.sequence * order.segments.value;
    t.batch = order.heads.divide(t.sequence);
    t.head = t.sequence - t.batch * order.heads.value;
    t.begin = t.segment * order.per_segment;
    t.first = t.begin > 0 ? t.begin - 1 : 0;
    t.end = t.begin + order.per_segment < order.blocks ? t.begin + order.per_segment : order.blocks;
    t.add = !answers || (g.finals && g.whole && t.end == order.blocks) ? t.end : t.end - 1;
    if (!answers && t.end > 1) t.end--;  // the last block is not looked at; but a task loads something
    return true;
}

// What a warp has of a state of so many columns of the values: 16 features of each sign.
template <int Columns> struct state_part {
    rt_fl<16, Columns> plus, minus;
    rows_vec plus_sum, minus_sum;

    // f(a part, the tensor of its list, its place there): the state's columns from `column` on, and the sums
    template <typename F>
    kittens_device void each_part(const state_list& list, int sequence, int which, F f, int column = 0,
                                  bool sums = true) {
        const int row = 16 * warp_in_group();
        f(plus, list.kv, element_coord{sequence, which, row, column});
        f(minus, list.kv, element_coord{sequence, which, features + row, column});
        if (!sums) return;
        f(plus_sum, list.k, element_coord{sequence, which, 0, row});
        f(minus_sum, list.k, element_coord{sequence, which, 0, features + row});
    }
    kittens_device void clear() { zero(plus), zero(minus), zero(plus_sum), zero(minus_sum); }
};

// Scores of the block before and of a warp's own block -> weights, and in `total` each lane's part of their sum. With a
// negative beta everything changes its sign, so that the weights can be powers of two.
kittens_device void weigh_window(block_scores& far, block_scores& near, rows_vec& total, float beta) {
    rows_vec top, near_total;
    tril(near, near, 16 * warp_in_group(), -INFINITY);
    row_max(top, far);
    row_max(top, near, top);
    const float beta_log = math::log2(math::abs(beta));
    map(top, top, [=](float m) { return m * window_scale - beta_log; });
    const auto weigh = [](float a, float m) { return math::exp2(a * window_scale - m); };
    map_rows(far, far, top, weigh);
    map_rows(near, near, top, weigh);
    zero(total);
    zero(near_total);
    row_sum_partial(total, far);
    row_sum_partial(near_total, near);
    add(total, total, near_total);
}

}  // namespace tk::hedgehog
