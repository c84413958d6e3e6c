// The ring of buffers that all pipelines are built on, and its words.
//
//   ask        waits until a stage is free, to be written
//   hand_over  says that what was written to it with ordinary stores is there
//   fill       both, with loads by the copy engine in between
//   take       waits until a stage is full, to be read
//   release    gives it back; once every reader has, it is free
//
// A stage has two semaphores: `full` counts its writers (and their bytes), `empty` its readers.
#pragma once

namespace kittens {

// Position in a ring of Stages buffers: the stage, and the parity of the round.
template <int Stages> struct ring_position {
    int stage = 0;
    int parity = 0;

    kittens_device void advance() {
        if (++stage == Stages) stage = 0, parity ^= 1;
    }
    kittens_device void advance(int steps) {
        parity ^= (stage + steps) / Stages & 1;
        stage = (stage + steps) % Stages;
    }
    // Of the n-th use, from the first on.
    kittens_device static ring_position nth(int n) { return {n % Stages, n / Stages % 2}; }
    kittens_device int stage_before() const { return (stage + Stages - 1) % Stages; }
};

template <> struct ring_position<1> {
    static constexpr int stage = 0;
    int parity = 0;

    kittens_device void advance() { parity ^= 1; }
    kittens_device static ring_position nth(int n) { return {n % 2}; }
};

// Bytes that a load of X announces: a struct of tiles that is padded for alignment says itself (`bytes`).
template <typename X> constexpr int loaded_bytes() {
    if constexpr (requires { X::bytes; }) return X::bytes;
    else return sizeof(X);
}

// Where ClusterBlocks blocks write into one another's rings, a stage is released to all of them.
template <typename T, int Stages, int ClusterBlocks = 1> struct ring {
    using position = ring_position<Stages>;
    static constexpr int semaphores = 2 * Stages;

    T* stages;
    semaphore *full, *empty;

    // Reports call them by these names.
    kittens_device void allocate_stages(shared_allocator& memory, const char* name) {
        stages = memory.allocate<T>(name, Stages);
    }
    kittens_device void allocate_semaphores(shared_allocator& memory, const char* full_name, const char* empty_name) {
        full = memory.allocate<semaphore>(full_name, Stages);
        empty = memory.allocate<semaphore>(empty_name, Stages);
    }
    // By one warp, before start_pipeline. Warps that write a stage (the copy engine's loader is one) and that read it.
    kittens_device void init(int writers, int readers, site where = kittens_here) {
        kittens::init(full, Stages, writers, where);
        kittens::init(empty, Stages, readers, where);
    }

    // A fresh semaphore passes the wait for parity 1: at first every stage is free.
    kittens_device T& ask(position at, site where = kittens_here) {
        wait(empty[at.stage], 1 - at.parity, where);
        return stages[at.stage];
    }
    kittens_device void hand_over(position at, site where = kittens_here) { arrive(full[at.stage], where); }
    // The same for the copy engine: loads into `stage` that `full` counts, until the end of the scope.
    struct filling {
        T& stage;
        semaphore& full;
        loading announced;
    };
    kittens_device filling fill(position at, site where = kittens_here) {
        T& stage = ask(at, where);
        return {stage, full[at.stage], {full[at.stage], loaded_bytes<T>(), where}};
    }
    kittens_device T& take(position at, site where = kittens_here) {
        wait(full[at.stage], at.parity, where);
        return stages[at.stage];
    }
    kittens_device void release(int stage, site where = kittens_here) {
        if constexpr (ClusterBlocks == 1) arrive(empty[stage], where);
        else
            for (int rank = 0; rank < ClusterBlocks; rank++) arrive_at(empty[stage], rank, where);
    }
};

// One warp's place in a ring that it reads, stage after stage.
template <typename Ring> struct ring_reader {
    Ring& read;
    typename Ring::position next = {}, oldest = {};  // to take; of those taken and not yet released

    // With `waits` false something else has said that it is full.
    kittens_device auto& take(site where = kittens_here, bool waits = true) {
        if (waits) read.take(next, where);
        auto& taken = read.stages[next.stage];
        next.advance();
        return taken;
    }
    kittens_device void release(site where = kittens_here) {
        read.release(oldest.stage, where);
        oldest.advance();
    }
};

// The same of one that it writes with ordinary stores, for the copy engine and the tensor cores to read.
template <typename Ring> struct ring_writer {
    Ring& written;
    typename Ring::position out = {};

    kittens_device auto& ask(site where = kittens_here) { return written.ask(out, where); }
    kittens_device void hand_over(site where = kittens_here) {
        fence_async();
        written.hand_over(out, where);
        out.advance();
    }
};

// Fetches all of the tensors' maps ahead of their first use.
template <typename T, int B, int D, int R, int C, typename... Tiles>
kittens_device void prefetch_maps_of(const gl<T, B, D, R, C, Tiles...>& global) {
    (prefetch_map<Tiles>(global), ...);
}
template <global_tensor... Gls> kittens_device void prefetch_maps(const Gls&... globals) {
    (prefetch_maps_of(globals), ...);
}

}  // namespace kittens
