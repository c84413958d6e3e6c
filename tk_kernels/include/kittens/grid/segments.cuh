// Few sequences are cut into segments that are computed at the same time, so that all multiprocessors are busy: first
// what each of them adds to the state, then sums of that, then all of them from the states that they start from.
#pragma once

namespace kittens {

// `steps` in segments of one length, of which the last may be shorter and none is empty: fewer than were wanted may do.
struct segmentation {
    int count, length, steps;  // length: in steps

    segmentation(int steps_, int wanted) : length(divide_up(steps_, wanted)), steps(steps_) {
        count = divide_up(steps, length);
    }
};

// The number of segments, from 1 to `most`, that costs least; the fewest of equal ones.
template <typename Cost> int cheapest_segments(int64_t most, Cost cost) {
    int best = 1;
    for (int count = 2; count <= most; count++)
        if (cost(count) < cost(best)) best = count;
    return best;
}

// States of linear attention, several of each sequence, (sequence, which, ...): sums of phi(k) and of phi(k) (x) v.
template <int Features, int Values> struct linear_states {
    gl<float, dynamic, dynamic, 1, Features> k;
    gl<float, dynamic, dynamic, Features, Values> kv;
};

// In place: the n-th of each sequence's states becomes the sum of the first n + 1. A warp has a line of them.
template <int Features, int Values> struct sum_states_kernel {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 4, batch = 8;
    static constexpr int lines = Features + 1;  // kv, k
    struct globals {
        linear_states<Features, Values> states;
        int count;
    };

    kittens_device static void run(const globals& g) {
        const int line = block_index() * warps + warp_index(), sequence = line / lines, row = line % lines;
        if (sequence >= g.states.kv.batch()) return;
        if (row < lines - 1) accumulate<Values>(g.states.kv, sequence, row, g.count);
        else accumulate<Features>(g.states.k, sequence, 0, g.count);
    }
    template <int Length, global_tensor Gl>
    kittens_device static void accumulate(const Gl& states, int sequence, int row, int count) {
        rv_fl<Length> running;
        zero(running);
        for (int first = 0; first < count; first += batch) {
            rv_fl<Length> next[batch];  // loaded together: the loads overlap
            for (int i = 0; i < batch; i++)
                if (first + i < count) load(next[i], states, coord{sequence, first + i, row, 0});
            for (int i = 0; i < batch; i++)
                if (first + i < count) {
                    add(running, running, next[i]);
                    store(states, running, coord{sequence, first + i, row, 0});
                }
        }
    }
};
template <int Features, int Values> void sum_states(const linear_states<Features, Values>& states, void* stream) {
    using kernel = sum_states_kernel<Features, Values>;
    const int64_t lines = int64_t(states.kv.batch()) * kernel::lines;
    launch<kernel>({int(divide_up(lines, kernel::warps)), 0}, stream, {states, states.kv.depth()});
}

}  // namespace kittens
