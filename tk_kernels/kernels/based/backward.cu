// The host side of Based's backward pass: the two walks.
#include "backward.cuh"

#include "backward.h"

namespace tk::based {
namespace {

template <bool Normalize> void run(const problem& p, const gradients& x, float* scratch, void* stream) {
    const int64_t sequences = p.batch * p.heads;
    const int steps = int(divide_up(p.rows, chunk));
    const auto thin = [&](const tensor& t) { return heads_of<narrow>{t, p.batch, p.heads, p.rows, feature_dim}; };
    const auto broad = [&](const tensor& t) { return heads_of<wide>{t, p.batch, p.heads, p.rows, value_dim}; };
    const numbers rows{scratch, p.batch, p.heads, 2, p.rows};
    const segment_order order{int(p.heads), int(sequences), 1, steps, steps};
    launch_tasks<lcsf<query_walk<Normalize>>>(
        sequences, stream,
        {thin(x.q), thin(x.k), broad(x.v), broad(x.dout), broad(Normalize ? x.out : x.dout), thin(x.dq), rows, order});
    launch_tasks<lcsf<key_walk<Normalize>>>(sequences, stream,
                                            {thin(x.q),
                                             thin(x.k),
                                             broad(x.v),
                                             broad(x.dout),
                                             thin(x.dk),
                                             broad(x.dv),
                                             rows,
                                             {const_cast<float*>(x.dstate), sequences, 1, features, value_dim},
                                             {const_cast<float*>(x.dpairs), sequences, 1, pair_rows, feature_dim},
                                             order});
}

}  // namespace

void backward(const problem& p, const gradients& x, float* scratch, void* stream) {
    require_counts("based_backward", 256, {p.rows, p.batch * p.heads});
    if (p.normalize) run<true>(p, x, scratch, stream);
    else run<false>(p, x, scratch, stream);
}

}  // namespace tk::based
