"""Changes that rules make and that are right all the same: for speed, or said twice. By driver, with the reason."""

from __future__ import annotations

from mutants_by_hand import (
    _BACKWARD,
    _BASED,
    _BY_WARPS,
    _FFT_CONV,
    _FLOW,
    _FORWARD,
    _GEMM,
    _GRADIENTS,
    _INSTRUCTIONS,
    _INTERPRETER,
    _LINEAR,
    _MLA,
    _PAGED,
    _QUEUE,
    _SWAPPED,
    _TOKEN,
)

_ANY_BASE = "any base gives the same softmax: this is for speed and for the range of floats"
_HIGH = "map(high, high, top, [=](float h, float t) { return h * scale - t > 8.f ? h * scale : t; });"
_EMPTY_ROW = "map(base, top, [](float t) { return t == -INFINITY ? 0.f : t; });"
_RANGE = "each([=](int i, float& x) { x = i >= left ? 0.f : x < least ? least : x; }, a);"
_FEATURES = (
    ("operation", "softmax.cuh", "mul(top, top, Sign * log2_e);", _ANY_BASE),
    ("operation", "softmax.cuh", "mul(lowest, total, least);", "a least weight of 1e-6 shows in no result"),
    ("operation", "softmax.cuh", "map_rows(p, p, lowest, ops::max{});", "a least weight of 1e-6 shows in no result"),
)
_TAKEN = "wait(full[at.stage], at.parity, where); return stages[«at.stage»];"
_ONE_STORE = ("group", "through.cuh", "store_read_wait<Pending>(where);", "a warp stores once")
_STORED = ("group", "lcsf.cuh", "store_wait();", "their stage has been read, and the grid ends behind its stores")
_READER_FINDS = ("stage", "ring.cuh", _TAKEN, "its readers find the stage by themselves")
_FINISHED = "element_coord{0, 0, 16 * (row + 4 * i), unit * (t.n + j)}"

_CLEARED = "what was left before attending has cleared them"
_ONE_PART = "where a warp merges several sequences, the keys of each are one part"
_LOADER_WAITS = (
    ("wait", _INTERPRETER, "pages.take(coming);", "more are under way, which costs time alone"),
    (
        "stage",
        "ring.cuh",
        "wait(full[at.stage], at.parity, where); return stages[«at.stage»];",
        "the loader waits, and reads nothing",
    ),
)
RIGHT: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "attention": (
        ("operation", "softmax.cuh", _HIGH, _ANY_BASE),
        ("operation", "softmax.cuh", _EMPTY_ROW, "other kernels have the rows that see no key"),
        ("wait", _FLOW, "tasks.ask();", "next() asks where nobody has: early, for speed"),
        *(
            (
                kind,
                _FORWARD,
                "«warpgroup::mma_wait(o); f.release();» put(t, factor, lse);",
                "behind the block's last tile nothing is loaded",
            )
            for kind in ("release", "early")
        ),
    ),
    "attention_warps": (
        ("operation", "softmax.cuh", _HIGH, _ANY_BASE),
        ("operation", "softmax.cuh", _EMPTY_ROW, "other kernels have the rows that see no key"),
        ("group", _BY_WARPS, "«copy_wait();»  // of the queries", "other kernels have the rows that see no key"),
        _ONE_STORE,
    ),
    "attention_backward": (
        *(
            (kind, "turns.cuh", "wait(turn[consumer], turn_parity, where);", "turns are for speed")
            for kind in ("wait", "parity")
        ),
        ("wait", _BACKWARD, "s.in_turn();", "turns are for speed"),
        ("arrivals", "lcf_stream.cuh", "init(s.turn, K::consumers, warpgroup_warps);", "the pass has no turns"),
        ("wait", "lcf_queue.cuh", "s.tasks.ask(told)", "a task's tiles are taken behind the number before the last"),
        ("arrivals", "lcf_queue.cuh", "s.tasks.init(1, roles::computing_warps + 1);", "the same: nobody needs to ask"),
    ),
    "attention_warps_backward": (
        _ONE_STORE,
        ("group", _GRADIENTS, "«copy_wait();»  // of K and V", "the last query sees every key"),
        ("operation", "backward_rows.cuh", "g.queue.clear();", "the kernels by warps take no tasks from a queue"),
    ),
    "based": (
        _STORED,
        (
            "group",
            _BASED,
            "warpgroup::mma_wait<1>();",
            "frees registers: nothing is written to them before the next wait",
        ),
        ("group", _BASED, "warpgroup::mma_wait<3>();", "the same"),
        ("operation", "second_order.cuh", "right_fill(made, made, 1);", "the keys' features are zero there"),
        ("operation", "masks.cuh", "mask(dst, src, [=](int, int col) { return col < from_col; }, value);", "the same"),
    ),
    "fft_conv": (
        _STORED,
        ("wait", _FFT_CONV, "in_turn(); if constexpr", "turns are for speed"),
        ("wait", _FFT_CONV, "== 0) «in_turn();»", "a barrier that others have come to ends with the block"),
        ("early", _FFT_CONV, "warpgroup::mma_wait(y.real, y.imag); pass_turn();", "turns are for speed"),
    ),
    "gemm": tuple(
        (kind, file, f"Operation::template finish<{finished});", "the plain product has nothing to finish")
        for kind, file, finished in (
            ("operation", _GEMM, f"rows * C.tile.n / 128>( slice, g.extra, {_FINISHED}"),
            ("coordinate", _GEMM, f"rows * C.tile.n / 128>( slice, g.extra, {_FINISHED}"),
            ("operation", _GEMM, "rows * C.tile.n / 128>(sum, g.extra, at"),
            ("operation", _SWAPPED, "unit_cols / 2>(whole, g.extra, at"),
            ("operation", _BY_WARPS, "rows * cols / 32>(slice, g.extra, at"),
        )
    ),
    "hedgehog": (
        *_FEATURES,
        ("wait", "lcf_carry.cuh", "s.in.take(oldest, where);", "every step that is given back has been looked at"),
        (
            "fence",
            "hedgehog.cuh",
            "store(*shared.own->ones, all); «fence_async();»",
            "add() has one before it reads them",
        ),
        ("barrier", "hedgehog.cuh", "«warpgroup::sync(consumers);» state sum;", "add() has one before it reads them"),
    ),
    "hedgehog_warps": (
        *_FEATURES,
        ("operation", _BY_WARPS, "} «arrived();» } if (!answers", "all has arrived, unless a segment has one block"),
        (
            "operation",
            _BY_WARPS,
            "alpha = sign * g.alpha[t.head]; «load_pairs(q, g.q, queries);»",
            "q again: fewer registers",
        ),
        ("place", _BY_WARPS, "g.beta[«t.head»] < 0", "no beta is negative"),
    ),
    "linear_attention": (
        _READER_FINDS,
        ("operation", "decayed_states.cuh", "zero(state);", "there is an initial state, which is loaded"),
        ("coordinate", "decayed_states.cuh", "slot, 0, «value»", "a head's decay is the same in all 64 columns"),
        ("operation", "factors.cuh", _RANGE, "what is loaded past the end is zero, and no decay is below the least"),
        ("operation", _LINEAR, "«zero(state);» wait_previous_kernel();", "there is an initial state, which is loaded"),
    ),
    "linear_attention_backward": (
        _READER_FINDS,
        *(
            ("operation", _BACKWARD, text, "what the states' copies lose shows in sums over many chunks alone")
            for text in (
                "map_cols(values, values, factor, ops::mul{});",
                "map(products, products, values, ops::mul{});",
                "add(dots, dots, part);",
                "«lost.add_to(dots, step);» g.in.store_dots(dots, t, of_queries",
                "own.lost.add_to(dots, step);",
            )
        ),
        *(
            ("place", _BACKWARD, f"lost.find(step, state, in.{text}, f.", "the same: it shows in no few chunks")
            for text in ("q, in.dout[«mine»]", "k, in.v[«mine»]")
        ),
        ("barrier", _BACKWARD, "sync_warp();", "a warp's lanes go together here"),
        ("group", _BACKWARD, "«warpgroup::mma_wait<1>(state);» if constexpr (copies", "it has ended; for the compiler"),
        ("operation", "factors.cuh", "zero(log_weight);", "the weights are read"),
        ("operation", "sums.cuh", "zero(totals);", "what lies behind the three is not stored"),
        *(
            ("operation", _BACKWARD, f"«zero(state);» if (g.{given}.tensor.data)", "a state is loaded")
            for given in ("initial", "dfinal")
        ),
        ("operation", "factors.cuh", _RANGE, "what is loaded past the end is zero, and no decay is below the least"),
    ),
    "mla_decode": (
        _READER_FINDS,
        ("operation", "softmax.cuh", _HIGH, _ANY_BASE),
        ("operation", _INSTRUCTIONS, "mul(sum, sum, shrink);", "all slots of a row are added at once"),
        ("operation", _MLA, "zero(factor); «one(shrink);»", "the first step sets it"),
        ("place", _INSTRUCTIONS, "divide(first, row[«i»])", "a page is loaded from its first row on"),
        ("place", _MLA, "from.row[«i»]", "a page is loaded from its first row on"),
        *(("barrier", _INSTRUCTIONS, text, "it is one of each warpgroup") for text in ("«sync();» if", "} «sync();»")),
    ),
    "paged_attention_decode": (
        _READER_FINDS,
        ("operation", "softmax.cuh", _HIGH, _ANY_BASE),
        ("place", _INSTRUCTIONS, "divide(first, row[«i»])", "a page is loaded from its first row on"),
        ("place", _PAGED, "where.row[«i»]", "a page is loaded from its first row on"),
    ),
    "llama_decode": (
        *_LOADER_WAITS,
        ("barrier", _TOKEN, "sync_warp();", "a warp's lanes go together here"),
        ("wait", _INTERPRETER, "wait(over[1], 0);", "the last instruction raises no counter"),
        ("wait", _QUEUE, "wait(over, 0);", "the storer has the last sums, for which the consumers awaited all"),
        ("operation", _TOKEN, "clear_sums(own); «clear_results(own);» } kittens_device", _CLEARED),
        ("operation", _TOKEN, "«clear_results(own);» // so that", "fewer registers alone"),
        ("operation", _TOKEN, "place_of_page at(t, n, g); «zero(own.before);»", "fewer registers alone"),
        ("operation", _TOKEN, "«zero(own.before);» return clear_sums", "fewer registers alone"),
        ("place", _TOKEN, "(split + i) * each[«h»] >= pages", _ONE_PART),
        ("place", _TOKEN, "whole[h].add(of[h], log[«h»]);", _ONE_PART),
        ("place", _TOKEN, "(split + slots) * each[«h»] < pages", _ONE_PART),
        ("place", _TOKEN, "* each[h] < pages[«h»];", _ONE_PART),
        ("place", _INSTRUCTIONS, "high = of[«i»].top > high", _ANY_BASE),
        ("place", _INSTRUCTIONS, "> high ? of[«i»].top : high", _ANY_BASE),
        ("place", _INSTRUCTIONS, "weight = of[«i»].sum", "every part is normed: its weight's sum is 1"),
    ),
    "products": _LOADER_WAITS,
    "program": (_READER_FINDS,),
}
"""By driver, what the rules find and what is right all the same: kind of mistake, file, its text there, and why."""
RIGHT["attention_window"] = tuple(
    right
    for driver in ("attention", "attention_warps", "attention_backward", "attention_warps_backward")
    for right in RIGHT[driver]
)
