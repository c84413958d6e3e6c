// What both directions of attention share.
#pragma once

#include "kittens.cuh"

#include "attention.h"
#include "window.cuh"

namespace tk::attention {

using rows_vec = rt_fl<16, 16>::col_vec;                     // one value for each of a warp's 16 rows
using row_values = gl<float, dynamic, dynamic, 1, dynamic>;  // (batch, head, 1, row)

// A problem as the kernels know it.
struct problem_view {
    const problem& p;

    host_tensor<tensor> queries(const tensor& t) const { return {t, p.batch, p.heads, p.rows, p.dim}; }
    host_tensor<tensor> keys(const tensor& t) const { return {t, p.batch, p.heads_kv, p.rows_kv, p.dim}; }
    seen_keys visible() const {
        return seen_keys::of({int(p.rows_kv), int(p.rows_kv - p.rows), p.causal}, int(p.window));
    }
};

}  // namespace tk::attention
