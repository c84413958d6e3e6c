// What the bindings of both directions share: the problems that operands pose. The operators have checked them.
#pragma once

#include <cstdint>

#include "linear_attention.h"
#include "tk/binding.h"

namespace tk::linear_attention {

using namespace tk::binding;

// Of linear_attention: q (batch, groups, rows, key_dim), v (batch, heads, rows, value_dim), log_decay (heads) or
// (batch, heads, rows).
inline problem problem_of(const TensorView& q, const TensorView& v, double scale) {
    return {q.size(0),
            v.size(1),
            q.size(1),
            q.size(2),
            static_cast<int>(q.size(3)),
            static_cast<int>(v.size(3)),
            static_cast<float>(scale)};
}
inline decays decays_of(const Optional<TensorView>& log_decay) {
    decays result;
    if (log_decay.has_value() && log_decay.value().ndim() == 1) {
        result.from = decays::per_head;
        result.rate = numbers(log_decay);
    } else if (log_decay.has_value()) {
        result.from = decays::per_step;
        result.log_decay = numbers(log_decay);
    }
    return result;
}

// Of mamba2: x (batch, rows, heads, 64), b (batch, rows, groups, states), dt (batch, rows, heads), a (heads).
inline problem problem_of_scan(const TensorView& x, const TensorView& b) {
    return {x.size(0), x.size(2), b.size(2), x.size(1), static_cast<int>(b.size(3)), static_cast<int>(x.size(3)), 1.f};
}
inline skip skip_of(const Optional<TensorView>& weight) {
    return {numbers(weight), weight.has_value() && weight.value().ndim() == 2};
}
inline decays decays_of_dt(const TensorView& dt, const TensorView& a, const Optional<TensorView>& dt_bias,
                           bool softplus) {
    decays result;
    result.from = decays::from_dt;
    result.dt_is_bf16 = is_type(dt, bfloat16);
    result.dt = dt.data_ptr();
    result.dt_batch_stride = dt.stride(0);
    result.dt_row_stride = dt.stride(1);
    result.rate = numbers(a);
    result.dt_bias = numbers(dt_bias);
    result.softplus = softplus;
    return result;
}

}  // namespace tk::linear_attention
