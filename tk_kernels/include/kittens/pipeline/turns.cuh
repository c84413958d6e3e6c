// Turns of a block's consumer warpgroups: 0, 1, ..., 0, 1, ... What a group knew when it passed its turn on, the next
// one knows: where the first has waited for a tile in its own turn, the others need not.
#pragma once

namespace kittens {

// By named barriers, which cost less than semaphores. Of FirstBarrier .. FirstBarrier + Groups - 1 group g waits at the
// g-th for the group before.
template <int Groups, int FirstBarrier = 1> struct turns {
    int group;

    kittens_device explicit turns(int group_, site where = kittens_here) : group(group_) {
        if (group == Groups - 1) pass_turn(where);  // the first may begin
    }
    kittens_device void in_turn(site where = kittens_here) {
        sync_named(FirstBarrier + group, 2 * warpgroup_warps, where);
    }
    kittens_device void pass_turn(site where = kittens_here) {
        arrive_named(FirstBarrier + (group + 1 == Groups ? 0 : group + 1), 2 * warpgroup_warps, where);
    }
};

// By semaphores, one a group, which leave the named barriers to the kernel.
template <int Groups> struct semaphore_turns {
    semaphore* turn;
    int consumer;
    int turn_parity;

    kittens_device semaphore_turns(semaphore* turn_, int consumer_)
        : turn(turn_), consumer(consumer_), turn_parity(consumer_ == 0) {}  // a fresh semaphore passes parity 1

    kittens_device void in_turn(site where = kittens_here) {
        wait(turn[consumer], turn_parity, where);
        turn_parity ^= 1;
    }
    kittens_device void pass_turn(site where = kittens_here) {
        arrive(turn[consumer + 1 == Groups ? 0 : consumer + 1], where);
    }
};

}  // namespace kittens
