// The kernels of the backward pass, by shape.
#include "backward.cuh"

#include <cmath>

#include "backward.h"
#include "call.cuh"

namespace tk::linear_attention {
namespace {

// Parts of a group's gradients of q and k in fp32: of blocks that share it, or none where there is one.
int parts_of(const problem& p, bool deterministic) {
    const int blocks = sharing(p) / units_of_block(p);
    return blocks == 1 ? 0 : deterministic ? blocks : 1;
}
// Elements of the parts of one of the two.
int64_t sums_of(const problem& p, int parts) { return p.batch * p.groups * parts * p.rows * p.key_dim; }

struct backward_call : call {
    const gradients& x;
    float* scratch;
    bool deterministic;
    const int parts = parts_of(p, deterministic);

    float* dk_sums() const { return scratch + sums_of(p, parts); }
    float* dots() const { return x.of_steps ? dk_sums() + sums_of(p, parts) : nullptr; }
    numbers flat(const float* state) const {
        return {const_cast<float*>(state), p.batch, p.heads, 1, p.key_dim * p.value_dim};
    }
    template <int Keys> shared_gradient<Keys> shared(const tensor& rounded, float* sums) const {
        const int slots = int(p.groups) * (parts > 0 ? parts : 1);
        if (parts == 0) sums = static_cast<float*>(rounded.data);  // not written, but its map is made
        return {
            of_keys(rounded), {sums, p.batch, slots, p.rows, Keys}, parts == 0, !deterministic, units_of(p) / slots};
    }
    template <int Keys, bool Clears> void run_sums() const {
        const int64_t matrices = 2 * p.batch * p.groups, strips = divide_up(p.rows, sums_kernel<Keys, Clears>::rows);
        launch_all<sums_kernel<Keys, Clears>>(matrices * strips, stream,
                                              {{scratch, matrices, parts, p.rows, Keys},
                                               {of_keys(x.dq), of_keys(x.dk)},
                                               divisor(int(strips)),
                                               divisor(int(p.groups))});
    }
    template <int Keys, int Consumers, int Stages> void run() const {
        using queries = query_walk<Keys, Consumers, Stages>;
        using by_keys = key_walk<Keys, Consumers, Stages>;
        const unit_order order{divisor(units_of(p) / Consumers), divisor(sharing(p)),
                               int(p.batch * units_of(p) / Consumers), int(divide_up(p.rows, chunk))};
        const walk_tensors<Keys> in{of_keys(x.q),
                                    of_keys(x.k),
                                    of_values(x.v),
                                    of_values(x.dout),
                                    decay(),
                                    std::log2(p.scale),
                                    {dots(), p.batch, units_of(p), 4, p.rows},
                                    units(),
                                    order};
        if (parts > 0 && !deterministic) run_sums<Keys, true>();
        launch_tasks<lcsf<queries>>(order.tasks, stream, {in, shared<Keys>(x.dq, scratch), state(s.initial)});
        launch_tasks<lcsf<by_keys>>(
            order.tasks, stream,
            {in, shared<Keys>(x.dk, dk_sums()), of_values(x.dv), skips(), state(x.dfinal), state(x.dinitial)});
        if (parts > 0) run_sums<Keys, false>();
        if (in.dots.data)
            launch_all<decays_kernel>(p.batch * p.heads, stream,
                                      {in.dots,
                                       in.decay,
                                       extra.weight && !extra.per_column,
                                       flat(s.final),
                                       flat(x.dfinal),
                                       {x.of_steps, p.batch, p.heads, 1, p.rows},
                                       {x.totals, 1, p.batch, p.heads, 3},
                                       divisor(int(p.heads)),
                                       halves_of(p)});
    }
};

}  // namespace

int64_t backward_scratch_elements(const problem& p, bool of_decays, bool deterministic) {
    return 2 * sums_of(p, parts_of(p, deterministic)) + (of_decays ? p.batch * units_of(p) * 4 * p.rows : 0);
}

void backward(const problem& p, const gradients& x, const decays& d, const states& s, const skip& extra, float* scratch,
              bool deterministic, void* stream) {
    require_counts("linear_attention_backward", 4, {p.rows, p.batch * p.heads * 2 * (p.rows / chunk + 1)});
    const backward_call c{{p, d, s, extra, stream}, x, scratch, deterministic};
    if constexpr (limits::moves_registers)
        if (units_of_block(p) == 2) return p.key_dim == 64 ? c.run<64, 2, 3>() : c.run<128, 2, 2>();
    if (p.key_dim == 64) c.run<64, 1, 2>();
    else c.run<128, 1, 2>();
}

}  // namespace tk::linear_attention
