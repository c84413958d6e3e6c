// cpu: copies that the warps make themselves (cp.async on a GPU). They land late, at a moment that the seed draws, at
// the latest when the warp that started them waits for their group.
#pragma once

#include "kittens/target/cpu/runtime/operations.cuh"
#include "kittens/types/global.cuh"

namespace kittens {
namespace cpu {

template <global_tensor Gl> box box_at(const Gl& global, element_coord at, int rows, int cols) {
    using T = std::remove_const_t<typename Gl::T>;
    return {reinterpret_cast<unsigned char*>(const_cast<T*>(global.data)),
            element_of<T>,
            int(sizeof(T)),
            {global.batch(), global.depth(), global.rows(), global.cols()},
            {global.stride[0], global.stride[1], global.stride[2]},
            {at.b, at.d, at.r, at.c},
            rows,
            cols};
}

// Starts the copy of `cols` elements of a row to shared memory, as part of the copy that the warp is making.
template <global_tensor Gl>
void copy_row(warp& w, const action& who, const Gl& global, element_coord at, int cols, void* to) {
    const box from = box_at(global, at, 1, cols);
    w.machine->note_read(w, region_of(from), who, is_exchanged<Gl>, w.copy_agent, w.copies, false);
    size_t offset;
    block& home = w.machine->locate(to, offset, who);
    home.memory.access({w.copy_agent, w.copies, w.before, who, false}, true, offset, size_t(from.bytes()));
    w.machine->start({.what = effect::kind::copy,
                      .who = who,
                      .where = from,
                      .memory = static_cast<unsigned char*>(to),
                      .agent = w.copy_agent,
                      .when = w.copies});
}

// One more copy of the warp's, in units of 16 bytes.
template <global_tensor Gl> action begin_copy(warp& w, const Gl& global, element_coord at, site where) {
    const action who = w.doing("copy_async", where);
    check_global(global, at, who);
    constexpr int unit = 16 / int(sizeof(typename Gl::T));
    if (at.c % unit != 0)
        fail(name(who), " begins at column ", at.c, ": copies are made in units of 16 bytes, ", unit, " elements");
    w.copies++;
    w.last_copy = who;
    return who;
}

inline void commit_copies(warp& w) { w.copy_groups.push_back(w.copies); }

inline void wait_copies(warp& w, size_t pending) {
    if (w.copy_groups.size() <= pending) return;
    const tick up_to = w.copy_groups[w.copy_groups.size() - pending - 1];
    w.machine->land_copies(w.copy_agent, up_to);
    w.before.see(w.copy_agent, up_to);
}

}  // namespace cpu

// Closes the group of the copies that this warp has started since the last one, and waits until at most Pending of its
// groups have not landed. That says nothing of other warps' copies: a barrier does.
kittens_device void copy_commit(site = kittens_here) { cpu::commit_copies(cpu::begin()); }
template <int Pending = 0> kittens_device void copy_wait(site = kittens_here) {
    cpu::wait_copies(cpu::begin(), Pending);
}

}  // namespace kittens
