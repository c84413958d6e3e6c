// A problem as the kernels of both directions take it.
#pragma once

#include "decayed_states.cuh"
#include "factors.cuh"

namespace tk::linear_attention {

inline int halves_of(const problem& p) { return p.value_dim / unit_cols; }     // units of a head
inline int units_of(const problem& p) { return int(p.heads) * halves_of(p); }  // of a batch
inline int sharing(const problem& p) { return units_of(p) / int(p.groups); }   // units that share q and k
inline int units_of_block(const problem& p) { return limits::moves_registers && sharing(p) % 2 == 0 ? 2 : 1; }

struct call {
    const problem& p;
    const decays& d;
    const states& s;
    const skip& extra;
    void* stream;

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
    head_units units() const { return {divisor(halves_of(p))}; }
    host_tensor<tensor> of_keys(const tensor& t) const { return {t, p.batch, p.groups, p.rows, p.key_dim}; }
    host_tensor<tensor> of_values(const tensor& t) const { return {t, p.batch, p.heads, p.rows, p.value_dim}; }
};

}  // namespace tk::linear_attention
