// Few sequences are cut into segments that are computed at the same time, so that all multiprocessors are busy.
#pragma once

namespace kittens {

// `steps` in segments of one length, of which the last may be shorter and none is empty: fewer than were wanted may do.
struct segmentation {
    int steps, length, count;

    segmentation(int steps_, int wanted)
        : steps(steps_), length(divide_up(steps_, wanted)), count(divide_up(steps_, length)) {}
};

// The number of segments, from 1 to `most`, that costs least; the fewest of equal ones.
template <typename Cost> int cheapest_segments(int64_t most, Cost cost) {
    int best = 1;
    for (int count = 2; count <= most; count++)
        if (cost(count) < cost(best)) best = count;
    return best;
}

}  // namespace kittens
