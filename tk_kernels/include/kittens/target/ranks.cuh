// What ranks, processes of one host with a GPU each, hand to one another: tensors that lie on every rank, and flags
// that they raise on one another's GPUs. Each launches the same kernel by launch_ranks, without a word between hosts.
#pragma once

namespace kittens {

// Words in every rank's memory: how many launches have ended there (its epoch), how many of its blocks have retired,
// then `count` flags. They are cleared once, when their memory is made, and only rise: to a value that follows from the
// epoch, so that launches that leave some out, or a rank that is one ahead, harm nobody. Each of a launch's blocks
// calls `retire`.
template <int Most> struct flags {
    int* words[Most];  // of each rank
    int rank, ranks, count;
    int* report;  // where a GPU says which wait never ended

    static constexpr int words_for(int count) { return count + 2; }
    kittens_host_device int* at(int of, int index) const { return words[of] + 2 + index; }
    kittens_host_device int* own() const { return words[rank]; }
};

// Whom a rank turns to in its step-th step, 0 .. ranks - 1: itself last. In every step each rank has another one, since
// a link carries less where all send to one.
template <int Most> kittens_host_device int rotation(const flags<Most>& f, int step) {
    return (f.rank + 1 + step) % f.ranks;
}

}  // namespace kittens
