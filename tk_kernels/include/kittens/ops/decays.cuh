// Decays of a recurrence, state_t = exp2(a_t) state_{t-1} + w_t k_t (x) v_t, in chunks of 64 steps (the state-space
// duality of Mamba-2, Dao and Gu 2024): one warp makes factors of the chunk's decays in shared memory, a warpgroup
// multiplies its scores, its values and its state by them. All logarithms are base 2, a <= 0: nothing overflows.
#pragma once

namespace kittens {

inline constexpr int decay_steps = 64;

// With c the running sum of a in the chunk: step i reads what step j <= i wrote with the factor exp2(row_i - key_j).
// Where a warp's 16 rows lie behind j it is far_i before_j, without an exponential in the consumers: with c at the end
// of the 16 rows before, m, they are exp2(row_i - m) and exp2(m - key_j), both of what decays.
struct decay_factors {
    sv_fl<decay_steps> row;  // c_i + log2(scale)
    sv_fl<decay_steps> key;  // c_j - log2(w_j)
    sv_fl<decay_steps> far;
    sv_fl<decay_steps> before[warpgroup_warps];  // of each warp; 0 from its own rows on
    sv_fl<decay_steps> grown;                    // exp2(row_i): of the state at the chunk's start
    sv_fl<decay_steps> tail;                     // exp2(c_last - key_j): how much of step j is left at the chunk's end
    sv_fl<16> decay;                             // exp2(c_last), how much of the state is; the same 16 times
};

// The factors of a and log2(w). By one warp.
kittens_device void make_factors(decay_factors& into, const rv_fl<decay_steps>& a, const rv_fl<decay_steps>& log_weight,
                                 float log_scale, site where = kittens_here) {
    rv_fl<decay_steps> sum, key, x;
    cumulative_sum(sum, a);
    sub(key, sum, log_weight);
    store(into.key, key, where);
    const float last = value_at(sum, decay_steps - 1);
    map(x, key, [=](float k) { return math::exp2(last - k); });
    store(into.tail, x, where);
    rv_fl<16> decay;
    fill(decay, math::exp2(last));
    store(into.decay, decay, where);

    const float ends[] = {0.f, value_at(sum, 15), value_at(sum, 31), value_at(sum, 47)};  // of the rows before a warp's
#pragma unroll
    for (int warp = 0; warp < warpgroup_warps; warp++) {
        const float end = ends[warp];
        each([=](int j, float& y, float k) { y = j < 16 * warp ? math::exp2(end - k) : 0.f; }, x, key);
        store(into.before[warp], x, where);
    }
    add(sum, sum, log_scale);
    store(into.row, sum, where);
    exp2(x, sum);
    store(into.grown, x, where);
    const float first = ends[1], second = ends[2], third = ends[3];
    each([=](int i, float& y) { y -= i < 16 ? 0.f : i < 32 ? first : i < 48 ? second : third; }, sum);
    exp2(sum, sum);
    store(into.far, sum, where);
}

namespace warpgroup {

// weights = scores o L, L_ij = exp2(row_i - key_j) for j <= i, else 0: with far and before for the rows before a warp's
// own, with exponentials for those. The scores are lost.
template <typename T>
kittens_device void decay_scores(rt<T, 16, decay_steps>& weights, rt_fl<16, decay_steps>& scores,
                                 const decay_factors& f, site where = kittens_here) {
    rt_fl<16, 16> own, power;
    rt_fl<16, 16>::col_vec row, far;
    rt_fl<16, 16>::row_vec key;
    rt_fl<16, decay_steps>::row_vec before;
    const int warp = warp_in_group();
    warpgroup::load(row, f.row, where);
    warpgroup::load(key, f.key, where);
    warpgroup::load(far, f.far, where);
    kittens::load(before, f.before[warp], where);
    broadcast_row(power, row);
    sub_col(power, power, key);
    make_causal(power, power, -INFINITY);
    exp2(power, power);
#pragma unroll
    for (int j = 0; j < warpgroup_warps; j++)
        if (j == warp) part(own, scores, 0, j);
    mul(own, own, power);
    mul_col(scores, scores, before);
    mul_row(scores, scores, far);
#pragma unroll
    for (int j = 0; j < warpgroup_warps; j++)
        if (j == warp) place(scores, own, 0, j);
    copy(weights, scores);
}

// The values of the chunk, 16 columns a warp, as rows, scaled by what is left of each step at the chunk's end.
template <typename T, shared_tile Values>
kittens_device void load_decayed(rt<T, 16, decay_steps>& v, const Values& from, const decay_factors& f,
                                 site where = kittens_here) {
    typename rt_fl<16, decay_steps>::row_vec tail;
    kittens::load(tail, f.tail, where);
    warpgroup::load_transposed(v, from, where);
    map_cols(v, v, tail, ops::mul{});
}

}  // namespace warpgroup
}  // namespace kittens
