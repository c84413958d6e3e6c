// Tensors that lie on every rank, and the launch of a kernel whose ranks signal to one another.
#pragma once

#include "kittens/grid/resident.cuh"

namespace kittens {

// A tensor of each rank, of one type and shape, each with maps of its own. What one rank stores on another is handed
// over by flags.
template <typename Gl, int Most> struct peers {
    exchanged<Gl> of[Most];

    kittens_host_device const exchanged<Gl>& on(int rank) const { return of[rank]; }
};

// All ranks meet: what each has done before, all see behind it. By one warp of each block, each block with as many
// flags of its own, from `index` on, as there are ranks; it is the launch's meeting number `met` there, 1 .. `in_all`.
template <int Most>
kittens_device void meet(const flags<Most>& f, int index, int met, int in_all, site where = kittens_here) {
    const int began = epoch(f, where) * in_all;
    for (int step = 0; step < f.ranks; step++) signal(f, rotation(f, step), index + f.rank, began + met, where);
    for (int from = 0; from < f.ranks; from++) await(f, index + from, began + met, where);
}

// Launches this rank's part of a kernel whose blocks await one another and other ranks: on its own stream, whenever its
// host comes to it. Every rank launches as many blocks. Throws as launch_resident does.
template <typename Kernel, int Most>
void launch_ranks(launch_shape shape, void* stream, const typename Kernel::globals& globals, const flags<Most>& f) {
    require_resident<Kernel>(shape);
    shape.resident = true;
    launch_of_rank<Kernel>(shape, stream, globals, f.rank);
}

}  // namespace kittens
