"""Mistakes of a kernel's own algorithm, which no rule can say: a mask, a merge, whose rows and which part are meant.

By driver; of each change the file, its text, and what that becomes, or what becomes of a part of it in angle quotes: a
whole statement, or a whole expression. Where two changes make one mistake, they are in one pair of brackets.
"""

from __future__ import annotations

Change = tuple[str, str, str]

_GEMM, _LCF, _FLOW, _SWAPPED, _BY_WARPS = "gemm.cuh", "lcf.cuh", "lcf_flow.cuh", "swapped.cuh", "by_warps.cuh"
_WINDOW = "window.cuh"
_FORWARD, _FORWARD_CALL = "forward.cuh", "forward.cu"
_BACKWARD, _GRADIENTS, _BASED, _FFT_CONV = "backward.cuh", "by_warps_backward.cuh", "based.cuh", "fft_conv.cuh"
_PAGED, _MLA, _INSTRUCTIONS, _LINEAR, _DECAYS = (
    "paged_attention_decode.cuh",
    "mla_decode.cuh",
    "instructions.cuh",
    "linear_attention.cuh",
    "decays.cuh",
)

_QUEUE, _PRODUCTS, _INTERPRETER, _TOKEN = "program/queue.cuh", "products.cuh", "program/interpreter.cuh", "token.cuh"

_LOAD_B = "load_async(subtile<tile_k, unit>(in.b, 0, j), g.b, coord{0, 0, k, t.n + j}, full, same_b);"
_LEAVE = "store_packed(tiles.sums, sum, coord{0, 0, number * blocks + block, warp * strips + i});"
_PART = "part(sum, acc, i / units, i % units);"
_ADD = "add(sum, sum, of[j]);"
_LSE_OF = "p.rows, p.rows, p.heads * p.rows"
_NEXT_KEYS, _LAST_VALUES = "load(t, 0);", "load(before, before.steps - 1);"
_IS_LAST = "load_number(told) == in_all"
_COUNT = "if (first) store_number(told, signal_and_count(c));"
_OTHERS = "multiply_halves(result.imag, result.real, f.other, other.imag, other.real, 1);"
_SECOND = "multiply_halves(y.real, y.imag, left, in.u[1].real, in.u[1].imag, 1);"
_SHARED_DK = "mma_AB(dk, ds, subtile<together, columns>(q, other, half));"
_ADDED = "add_packed(g.dq, rows, coord{at.b, at.d, strip + i, column});"
_ADDED_MINUS = "warpgroup::mma_AtB(minus, phi.minus, of.v);"

_ALL_SLOTS, _SHARE_END = "t.first_slot + t.slots", "t.first_slot + t.slots * (warp + 1) / Warps"
_OF_HEAD = "(t.sequence * g.heads.value + head) * g.new_tokens"
_USE = "Kernel::use(own, in.take(), t, n, g);"
_STORE_ACT = "kittens::store(g.act, sum, element_coord{0, t.layer, s, column});"
_SIGNALS = "signal(g.ready[t.signals]);"
_ACT_SIGNALS = (_TOKEN, _SIGNALS, f"if (t.opcode != opcode::gate_up) {_SIGNALS}")
_HIGHEST = "(map(word, word, [](float w) { return w < INFINITY ? w : 0.f; }), max(word))"
_FIRST_TURN = "if (warpgroup_index() == 1) pass_turn();"
_FIRST_STATE = "warpgroup::store(own.state[0], state);"
_FACTORS = "warpgroup::load(left, out.y[0].real);"

_LAST_REDUCES: tuple[Change, ...] = (
    (_QUEUE, _IS_LAST, "load_number(told) == in_all - 1"),
    (_QUEUE, _IS_LAST, "true"),
    (_QUEUE, _IS_LAST, "false"),
    (_QUEUE, _COUNT, "if (first) { signal(c); store_number(told, in_all); }"),  # does not acquire
)

WRITTEN: dict[str, tuple[Change | tuple[Change, ...], ...]] = {
    "gemm": (
        (_GEMM, "step > 0", "1"),
        ((_GEMM, _LOAD_B, ";"), ("ring.cuh", "loaded_bytes<T>()", "loaded_bytes<T>() - 16384")),
        (_GEMM, "column_mask() << col", "1 << cluster_rank()"),
        (_GEMM, "if («step == 0») wait_previous_kernel();", "step == 1"),
        (_GEMM, "if («step == 0») wait_previous_kernel();", "step == 0 && cluster_rank() == 0"),
        ("ring.cuh", "arrive_at(empty[stage], rank, where);", "arrive_at(empty[stage], cluster_rank(), where);"),
        # sums that are promoted
        (_LCF, "add(acc, acc, recent);", "copy(acc, recent);"),
        (_GEMM, "step % promotion > 0", "0"),
        # C's transpose
        (_SWAPPED, "from < g.split.value", "from + 1 < g.split.value"),
        (_SWAPPED, "load_from(next, tile, from);", "kittens::load(next, tile);"),
        (_SWAPPED, "rank * g.steps", "0 * g.steps"),
        # by warps
        (_BY_WARPS, "copy_commit();", "if (step < g.steps) copy_commit();"),
        (_BY_WARPS, "copy_wait<stages - 2>(); sync_block();", "sync_block(); copy_wait<stages - 2>();"),
        (_BY_WARPS, "stage == 0 ? stages - 1 : stage - 1", "stage"),
        (_BY_WARPS, "step < stages - 1", "step < stages - 2"),
        (_BY_WARPS, "cols * (warp_index() % 2)", "cols * 0"),
        # tiles that are divided
        ((_GEMM, _PART, f"if (i == 0) signal(ready); {_PART}"), (_GEMM, "signal(ready);", ";")),
        ((_GEMM, _LEAVE, f"if (i == strips - 1) signal(ready); {_LEAVE}"), (_GEMM, "signal(ready);", ";")),
        (_GEMM, "signal(ready);", "over(); signal(ready);"),
        (_GEMM, "block * tile_warps + warp", "block"),
        (_GEMM, "block * tile_warps + warp", "tile * tile_warps + warp"),
        (_GEMM, "«number * blocks + block», warp", "block"),
        (_GEMM, "«tile * cluster_blocks + cluster_rank()», blocks", "tile * cluster_blocks"),
        (_GEMM, "await(ready, tiles.parts);", "await(ready, parts_together);"),
        (_GEMM, f"«from + j < tiles.parts») {_ADD}", "from + j + 1 < tiles.parts"),
        (_GEMM, f"«from + j < tiles.parts») {_ADD}", "true"),
        (_GEMM, "from += parts_together", "from += 2 * parts_together"),
        (_GEMM, "from += parts_together", "from += parts_together - 1"),
        (_GEMM, "(from + j) * blocks + block", "j * blocks + block"),
        (_GEMM, _ADD, f"if (j == 0) zero(sum); {_ADD}"),
        (_GEMM, "int i = «number»; i < strips", "0"),
        (_GEMM, "t.steps < g.steps", "false"),
        (_GEMM, "t.first + step", "t.first + step + (t.first > 0)"),
        (_GEMM, "t.first + step", "step"),
        (_GEMM, "g.tiles.steps + (part < g.tiles.longer)", "g.tiles.steps"),
        (_LCF, "1); «K::retire(g);»", "if (block_index() < 2) K::retire(g);"),
    ),
    "attention": (
        (
            (_FORWARD, "if constexpr (!C.hold_queries) «f.release_held();»", ";"),
            (_FORWARD, "border.pass_turn();", "border.pass_turn(); f.release_held();"),
        ),
        ("turns.cuh", "group + 1 == Groups ? 0 : group + 1", "group"),
        (_FLOW, "this->group == 0", "this->group == 1"),
        (
            _FORWARD,
            "f.in_turn(); multiply_scores(k); warpgroup::mma_AB(o, weights, f.take_in_turn());",
            "multiply_scores(k); warpgroup::mma_AB(o, weights, f.take_in_turn()); f.in_turn();",
        ),
        (_FLOW, f"{_NEXT_KEYS} if (any) {_LAST_VALUES}", f"if (any) {_LAST_VALUES} {_NEXT_KEYS}"),
        (_FORWARD, "put(before, factor, lse);", "put(t, factor, lse);"),
        (_FORWARD, "state = fresh;", ";"),
        ("task_feed.cuh", "ask(where); asked = false;", "ask(where);"),
        (_FORWARD, "g.visible.before(t.row + 64 * f.group + 1)", "g.visible.before(t.row + 64 * f.group + 128)"),
        (_FORWARD, "t.row + 64 * (consumer + 1)", "t.row + 64 * consumer"),
        (_FORWARD, "value ? g.v : g.k", "g.k"),
        ("masks.cuh", "c <= last + r && c < tail", "c <= last + r + 1 && c < tail"),
        # rows that see no key
        (_FORWARD_CALL, "empty > 0", "empty < 0"),
        (_FORWARD_CALL, "std::max<int64_t>(0, p.rows - p.rows_kv)", "std::max<int64_t>(0, p.rows - p.rows_kv + 1)"),
        (_FORWARD_CALL, "rows_from(q, empty)", "q"),
        (_FORWARD_CALL, "rows_from(out, empty)", "out"),
        (_FORWARD_CALL, "lse_of(lse, p, empty, seeing.rows)", "lse_of(lse, p, 0, seeing.rows)"),
        (
            _FORWARD_CALL,
            f"return {{lse + first, p.batch, p.heads, 1, count, {_LSE_OF}}};",
            "return {lse + first, p.batch, p.heads, 1, count, count, count, p.heads * p.rows};",
        ),
        (_FORWARD, "fill(nothing, -INFINITY);", "zero(nothing);"),
        (_FORWARD, "block * rows + 16 * warp_index()", "block * rows"),
    ),
    "attention_warps": (
        (_BY_WARPS, "coord{batch, head_kv, block - 1, 0}", "coord{batch, head_kv, block, 0}"),
        (_BY_WARPS, "g.visible.tiles_before(row + warp_rows, Keys)", "g.visible.tiles_before(row, Keys)"),
        (_BY_WARPS, "mul_row(o, o, shrink)", "void()"),
    ),
    "attention_backward": (
        (_BACKWARD, "start_next_kernel(), wait_previous_kernel();", "start_next_kernel();"),
        (
            _BACKWARD,
            "if (step == 0) start_next_kernel(), wait_previous_kernel(); "
            "load_async(in.lse, g.lse, coord{t.batch, head, 0, block}, full);",
            "load_async(in.lse, g.lse, coord{t.batch, head, 0, block}, full); if (step == 0) wait_previous_kernel();",
        ),
        ("lcf_queue.cuh", "g.queue.task(g.queue.claim())", "(g.queue.claim(), g.queue.task(g.queue.claim()))"),
        (_BACKWARD, "warpgroup::sync(told(s.consumer, 0))", "void()"),
        (_BACKWARD, "keep_dq<1>();", "keep_dq<2>();"),
    ),
    "attention_warps_backward": (
        (_GRADIENTS, "sync_block();  // dS is there", "load_queries(at); sync_block();"),
        (_GRADIENTS, "at.r = first, at.d++;", "at.r = first + 1, at.d++;"),
        (_GRADIENTS, _ADDED, _ADDED.replace("add_packed", "store_packed")),
        (_GRADIENTS, "at.d, «strip + i», column", "(strip ^ 1) + i"),
        (_GRADIENTS, "sync_named(1 + own, sharing);", "sync_named(1 + half, sharing);"),
        (_GRADIENTS, _SHARED_DK, _SHARED_DK.replace("half", "0")),
        (_GRADIENTS, _SHARED_DK, _SHARED_DK.replace(" other,", " half,")),
        (
            _GRADIENTS,
            "store_through(g.dv, dv, subtile<own_keys, columns>(v, own, half), «to»);",
            "element_coord{batch, head_kv, own_key, 0}",
        ),
        (_GRADIENTS, "«at.r * queries + together * i», key, own_key", "at.r * queries"),
    ),
    "attention_window": (
        # edges: of the mask, of the tiles that are walked over, of those that need no mask
        (_WINDOW, "c < tail && c > first + r", "c < tail && c >= first + r"),
        (_WINDOW, "c < tail && c > first + r", "c < tail && c > first + r + 1"),
        (_WINDOW, "r < tail && r > first + c", "r < tail && r >= first + c"),
        (_WINDOW, "return from(row) / tile_keys;", "return (from(row) + tile_keys - 1) / tile_keys;"),
        (_WINDOW, "return from(row) / tile_keys;", "return from(row) / tile_keys + 1;"),
        (_WINDOW, "return (from(row) + tile_keys - 1) / tile_keys;", "return from(row) / tile_keys;"),
        (_WINDOW, "from(row + Scores::rows - 1) <= key", "from(row) <= key"),
        (_WINDOW, "from(row + Scores::cols - 1) <= tile", "from(row) <= tile"),
        (_WINDOW, "last > 0 ? «last / tile_queries + 1» : 1", "last / tile_queries"),
        (_WINDOW, "end - 1 - offset + window - 1", "end - 1 - offset"),
        (_BY_WARPS, "g.visible.first_tile(row, Keys)", "g.visible.first_tile(row + warp_rows, Keys)"),
    ),
    "based": (
        (_BASED, "before < t.segment", "before < 0"),
        ("second_order.cuh", "diagonals.template operator()<0>(2, «once»);", "twice"),
        ("second_order.cuh", "warp == 3 ? 3 : warp + 1", "warp == 3 ? 3 : 1"),
        (_BASED, "a + b + rows_before + 1e-6f", "a + b + 1e-6f"),
    ),
    "llama_decode": (
        (_TOKEN, "g.ready[t.signals - 1], «t.at_least * (t.round + 1)», false", "t.at_least * (t.round + 1) - 1"),
        (_TOKEN, "t.at_least * «(t.round + 1)», false", "1"),
        # rounds, and their tokens
        (_TOKEN, "g.said(), «block_count() * t.round», false", "block_count() * t.round - 1"),
        (_TOKEN, "t.layer == 0 && n == 0 && «t.round > 0») await", "false"),
        (_TOKEN, "sequence}) + «round» + 1;", "0"),
        (_TOKEN, "s * g.rounds + «t.round»);", "0"),
        (_TOKEN, "l == top && «w < word»", "w > word"),
        (_TOKEN, "return «l > b» ? 1.f : 0.f;", "l >= b"),
        (_TOKEN, "lowest = «min(word)»", _HIGHEST),
        ((_TOKEN, _STORE_ACT, f"if (n + 1 == t.count) {_SIGNALS} {_STORE_ACT}"), _ACT_SIGNALS),
        (_TOKEN, _STORE_ACT, f"{_STORE_ACT} if (n + 1 < t.count) {_SIGNALS}"),
        (
            (_INTERPRETER, _USE, f"auto& page = in.take(); in.release(); {_USE.replace('in.take()', 'page')}"),
            (_INTERPRETER, f"{_USE} «in.release();»", ";"),
        ),
        (_TOKEN, "at.steps ? «t.slot» : 0", "0"),
        (_TOKEN, "order_of(t) > 0 && «slot_of(t, n, at) == 0»", "true"),
        (_TOKEN, "«warp_index() == 0» && adds(t)", "true"),
        (_TOKEN, "int slot = «1»; slot < g.added_slots; slot++) {", "2"),
        (_TOKEN, "slot < «g.projected_slots»", "1"),
        (_TOKEN, "map_sum(turned, b, kept.sine, «-1.f»);", "1.f"),
        (_TOKEN, "bring_before(own, t, «n + 1», g);", "n"),
        (_TOKEN, "put_fresh(i == 0 ? in.k : in.v, tile, shared.fresh[i], «left - 1»);", "left - 2"),
        (_TOKEN, "«left < 16») right_fill", "false"),
        (_TOKEN, "«left <= 16»", "false"),
        (_TOKEN, "return «first < end && end == pages»;", "true"),
        (_TOKEN, "(split + i) * each[h] >= «pages[h]»", "pages[h] - each[h]"),
        (_TOKEN, "(split + i) * each[h] >= «pages[h]»", "pages[h] + each[h]"),
        (_TOKEN, "more |= «(split + slots) * each[h] < pages[h]»;", "false"),
        (_TOKEN, "end = first + each < pages ? «first + each» : pages", "first + each - 1"),
        (_TOKEN, "«g.biased») { add(a", "false"),
        (_TOKEN, "«g.normed_heads») norm_head", "false"),
        (_TOKEN, "2 * t.layer + «(i == g.group)»", "0"),
        (_TOKEN, "t.opcode == opcode::gate_up && «at.row % 2 == 1») mma_ABt", "false"),
    ),
    "products": (
        (_PRODUCTS, "g.ready[t.layer - 1], «t.awaited», false", "t.awaited - 1"),
        (_PRODUCTS, "if (t.signals > 0) signal(g.ready[t.layer]);", "if (t.count > 0) signal(g.ready[t.layer]);"),
        (_PRODUCTS, "leaves(const instruction&, int n, const globals&) { return «n % steps == steps - 1»; }", "true"),
        (_PRODUCTS, "consumers * (n % steps) + «warp_index()»", "0"),
    ),
    "program": (
        (
            "program.cuh",
            "all.signal_together(g.ready[t.counter]);",
            "if (block_index() > 0) signal(g.ready[t.counter]);",
        ),
        ("program.cuh", "all.await_together(g.ready[t.counter], «t.slots», t.last);", "1"),
        ("program.cuh", "g.ready[«t.counter»], t.slots", "(t.counter + 1) % 3"),
        ("program.cuh", "t.slot + «i», 16", "0"),
        (_QUEUE, "n + 1 == capacity || behind_it.brought(program::field::opcode) == program::opcode::stop", "true"),
        (_QUEUE, "n + 1 == capacity || behind_it.brought(program::field::opcode) == program::opcode::stop", "false"),
    ),
    "paged_attention_decode": (
        *_LAST_REDUCES,
        (_PAGED, "oldest + g.group.divide(row0 + row)", "length"),
        (_INSTRUCTIONS, f"«{_SHARE_END}», row", f"{_SHARE_END} - (warp == Warps - 1)"),
        (_INSTRUCTIONS, "math::exp2(of[i].top - base)", "1.f"),
        # two warpgroups
        (_PAGED, "Groups == 1 || warpgroup_index() == 0", "true"),
        (_PAGED, "Groups == 1 || «warpgroup_index() == 0»", "warpgroup_index() == 2"),
        (_PAGED, "const team all{counted, «consumer() == 0»};", "warp_in_group() == 0"),
        (_PAGED, "in.init(1, consumers);", "in.init(1, warpgroup_warps);"),
        (_PAGED, "element_coord{0, t.slot, first_row, 0}", "element_coord{0, t.slot, first_row % 64, 0}"),
        (_PAGED, "element_coord{0, 0, t.slot, first_row}", "element_coord{0, 0, t.slot, first_row % 64}"),
        (_PAGED, "place(g.out_order, first_row + row, t, g)", "place(g.out_order, first_row % 64 + row, t, g)"),
        (_PAGED, "place(g.q_order, first_row + row, t, g)", "place(g.q_order, first_row % 64 + row, t, g)"),
        (_PAGED, "g.group.divide(row0 + row)", "g.group.divide((row0 + row) % 64)"),
        (_PAGED, "place(g.out_order, first_row, t, g)", "place(g.out_order, first_row + 15, t, g)"),
        (_INSTRUCTIONS, "t.first_row + Rows * warp", "t.first_row + Rows * warp_in_group()"),
        (_INSTRUCTIONS, "row += Rows * Warps", "row += Rows * warpgroup_warps"),
        (_INSTRUCTIONS, "t.first_slot + t.slots * warp / Warps", "t.first_slot + t.slots * warp_in_group() / Warps"),
        (_INSTRUCTIONS, f"«{_ALL_SLOTS}», row", f"{_ALL_SLOTS} - (Rows == 1)"),
        (_INSTRUCTIONS, "i < Warps", "i < warpgroup_warps"),
    ),
    "mla_decode": (
        *_LAST_REDUCES,
        (_MLA, "clear_tail(kv, t.length - key);", "clear_tail(kv, t.length - key + 1);"),
        (_MLA, "t.end_key - key", "t.length - key"),
        (_MLA, "tiles.take(kittens_here, «own == 0»)", "own == 1"),
        (_MLA, "oldest + g.heads.divide(row0 + row)", "length"),
        (_MLA, "if (!state.step(scores, shrink, g.scale)) one(shrink);", "state.step(scores, shrink, g.scale);"),
        (_MLA, "sync_named(spent, consumers);", "sync_named(both, consumers);"),
        (_MLA, "element_coord{0, 0, t.slot, first_row}", "element_coord{0, 0, t.slot ^ 1, first_row}"),
        (_MLA, f"{_OF_HEAD} + token", f"{_OF_HEAD} + (token ^ 1)"),
        (_MLA, "fill(lse, -INFINITY);", "zero(lse);"),
        (_INSTRUCTIONS, f"«{_ALL_SLOTS}», row", f"{_ALL_SLOTS} - 1"),
        (_INSTRUCTIONS, f"«{_SHARE_END}», row", f"{_SHARE_END} - (warp == 3)"),
    ),
    "fft_conv": (
        (
            _FFT_CONV,
            "stream.take()",
            "[&]() -> input& { input& in = stream.take(); stream.release(); return in; }()",
        ),
        (_FFT_CONV, "coord{first.d, 1, 0, first.r}", "coord{first.d, 0, 0, first.r}"),
        (_FFT_CONV, "zero_beyond(g.u, at)", "coord{at.b & ~1, at.d, 0, at.c}"),
        (_FFT_CONV, "mul_twiddle<conjugate::second>(turned_back, w, f, own);", "mul_twiddle(turned_back, w, f, own);"),
        ((_FFT_CONV, _FACTORS, f"{_FIRST_TURN} {_FACTORS}"), (_FFT_CONV, _FIRST_TURN, ";")),
        # both on one transform
        (_FFT_CONV, _SECOND, _SECOND.replace("u[1]", "u[0]")),
        (_FFT_CONV, _OTHERS, _OTHERS.replace("f.other", "f.left")),
        (_FFT_CONV, "load_twiddle(out.y[1], together);", "load_twiddle(out.y[1], 0);"),
        # causal
        (_FFT_CONV, "half(in.u[me].real, 1)", "half(in.u[me].real, 0)"),
        (_FFT_CONV, "first.b + parts * s", "first.b + 2 * s"),
    ),
    "hedgehog": (
        (
            "hedgehog.cuh",
            "warpgroup::mma_wait(o); s.release_copy(); s.release_before(block);",
            "s.release_before(block); warpgroup::mma_wait(o); s.release_copy();",
        ),
        ("hedgehog.cuh", _ADDED_MINUS, _ADDED_MINUS.replace("of.v", "s.step(next).v")),
        ("hedgehog.cuh", "t.begin > 0", "t.begin > 9999"),
        ("softmax.cuh", "mul(lowest, total, least);", "mul(lowest, total, 0.5f);"),
    ),
    "hedgehog_warps": (
        (
            _BY_WARPS,
            "mm_AB(o, near_weights, here.v);",
            "mm_AB(o, near_weights, here.v); if (block + 1 < t.end) fetch(s, g, t, column, block + 1);",
        ),
        (_BY_WARPS, "add(s, sum, before);", "add(s, sum, here);"),
        (_BY_WARPS, "t.begin > 0", "t.begin > 9999"),
        (_BY_WARPS, "element_coord{place.b, place.d, place.r, column}", "place"),
    ),
    "linear_attention": (
        (_LINEAR, "warpgroup::mma_wait(o);", "s.release(); warpgroup::mma_wait(o);"),
        ("lcsf.cuh", "1 + preparing_warps", "1"),
        (_LINEAR, "(step + 1) % copies", "step % copies"),
        (_DECAYS, "j < 16 * warp", "j < 16 * warp - 1"),
        (_DECAYS, "sub(key, sum, log_weight);", "sub(key, sum, a);"),
        (_LINEAR, "wait_previous_kernel();", "if (t.segment > 0) wait_previous_kernel();"),
        ((_LINEAR, "wait_previous_kernel();", ";"), (_LINEAR, _FIRST_STATE, f"wait_previous_kernel(); {_FIRST_STATE}")),
        (_LINEAR, "t.unit + c", "t.unit"),
    ),
}
