// The two walks of the backward pass, by shape.
#include "backward.cuh"

#include <cmath>

#include "backward.h"

namespace tk::linear_attention {
namespace {

struct backward_call {
    const problem& p;
    const gradients& x;
    const decays& d;
    const states& s;
    const skip& extra;
    void* stream;
    const int halves = p.value_dim / unit_cols, units = int(p.heads) * halves;

    template <typename T> of_heads<T> dt() const {
        T* const data = static_cast<T*>(const_cast<void*>(d.dt));
        return {data, p.batch, 1, p.rows, p.heads, d.dt_row_stride, 0, d.dt_batch_stride};
    }
    decay_source decay() const {
        const gl<float, dynamic, dynamic, 1, dynamic> each(const_cast<float*>(d.log_decay), p.batch, p.heads, 1,
                                                           p.rows);
        return {d.from, int(p.rows), d.rate, d.dt_bias, d.softplus, d.dt_is_bf16, each, dt<float>(), dt<bf16>()};
    }
    either_order<state_matrices> state(const float* data) const {
        const int rows = s.values_first ? p.value_dim : p.key_dim, cols = s.values_first ? p.key_dim : p.value_dim;
        return {{const_cast<float*>(data), p.batch, p.heads, rows, cols}, s.values_first};
    }
    skip_weights skips() const {
        return {const_cast<float*>(extra.weight), 1, 1, p.heads, extra.per_column ? p.value_dim : 1};
    }
    host_tensor<tensor> of_keys(const tensor& t) const { return {t, p.batch, p.groups, p.rows, p.key_dim}; }
    host_tensor<tensor> of_values(const tensor& t) const { return {t, p.batch, p.heads, p.rows, p.value_dim}; }
    unit_order order(int consumers) const {
        return {divisor(units / consumers), divisor(units / int(p.groups)), int(p.batch * units / consumers),
                int(divide_up(p.rows, chunk))};
    }
    template <typename Walk> typename Walk::shape::inputs inputs() const {
        return {of_keys(x.q),
                of_keys(x.k),
                of_values(x.v),
                of_values(x.dout),
                decay(),
                std::log2(p.scale),
                {x.dots, p.batch, units, 4, p.rows},
                {divisor(halves)},
                order(Walk::consumers)};
    }
    // The tensor of the two that is not written has maps, too.
    template <int Keys> shared_gradient<Keys> shared(const shared_gradient_of& to) const {
        using result = shared_gradient<Keys>;
        if (!to.sums) {
            return {of_keys(to.rounded), {static_cast<float*>(to.rounded.data), 1, 1, 16, Keys}, true, false};
        }
        return {decltype(result::rounded)(reinterpret_cast<bf16*>(to.sums), 1, 1, 16, Keys),
                {to.sums, p.batch, to.slots, p.rows, Keys},
                false,
                to.slots == p.groups};
    }
    int slot_units(const shared_gradient_of& to) const { return units / int(to.sums ? to.slots : p.groups); }

    template <int Keys, int Consumers, int Stages> void run() const {
        using queries = query_walk<Keys, Consumers, Stages>;
        using by_keys = key_walk<Keys, Consumers, Stages>;
        const int tasks = order(Consumers).tasks;
        launch_tasks<lcsf<queries>>(tasks, stream,
                                    {inputs<queries>(), shared<Keys>(x.dq), slot_units(x.dq), state(s.initial)}, true);
        launch_tasks<lcsf<by_keys>>(tasks, stream,
                                    {inputs<by_keys>(), shared<Keys>(x.dk), slot_units(x.dk), of_values(x.dv), skips(),
                                     state(x.dfinal), state(x.dinitial)},
                                    true);
    }
};

}  // namespace

int units_of_block(const problem& p) {
    return limits::moves_registers && p.heads / p.groups * (p.value_dim / unit_cols) % 2 == 0 ? 2 : 1;
}

void backward(const problem& p, const gradients& x, const decays& d, const states& s, const skip& extra, void* stream) {
    require_counts("linear_attention_backward", 4, {p.rows, p.batch * p.heads * 2 * (p.rows / chunk + 1)});
    const backward_call c{p, x, d, s, extra, stream};
    if constexpr (limits::moves_registers)
        if (units_of_block(p) == 2) return p.key_dim == 64 ? c.run<64, 2, 3>() : c.run<128, 2, 2>();
    if (p.key_dim == 64) c.run<64, 1, 2>();
    else c.run<128, 1, 2>();
}

}  // namespace tk::linear_attention
