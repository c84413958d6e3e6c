"""The instances of operations.cuh that are tested, and the C++ table that makes each callable by its name."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

CPP_TYPES = {"fp32": "float", "bf16": "bf16", "fp16": "half", "e4m3": "e4m3"}
DTYPES = ("fp32", "bf16", "fp16")
HALVES = ("bf16", "fp16")
LAYOUTS = ("row", "col")
SPREADS = ("ortho", "align", "naive")
FORMS = ("AB", "ABt", "AtB", "AtBt")

# (rows, cols): one base tile, wide, square, tall, several of both.
REGISTER_SHAPES = ((16, 16), (16, 80), (32, 32), (64, 16), (32, 64))
# Shared rows of 32, 64 and 128 bytes and of several chunks, whatever the element.
SHARED_SHAPES = ((16, 16), (16, 32), (32, 64), (16, 128))
COPY_SHAPES = ((16, 16), (64, 32), (48, 48), (64, 64), (128, 128))
WARP_MULTIPLIES = ((16, 16, 16), (32, 16, 48), (16, 64, 32), (48, 32, 16))
GROUP_MULTIPLIES = ((64, 16, 16), (64, 64, 64), (128, 48, 32), (64, 128, 80), (64, 256, 16))
# 8-bit elements live in shared memory, in rows of at least 32, and are multiplied with K contiguous.
E4M3_SHAPES = ((16, 32), (32, 64), (64, 128), (16, 256))
E4M3_MULTIPLIES = ((64, 16, 32), (128, 48, 64), (64, 256, 128), (64, 64, 256))
OPERAND_MULTIPLIES = ((64, 64, 64), (128, 32, 48))


@dataclass(frozen=True)
class Instance:
    """One instance of a family: its template arguments as Python values, in the template's order."""

    family: str
    parameters: tuple[str | int, ...]

    @property
    def name(self) -> str:
        return "-".join(map(str, (self.family, *self.parameters)))

    @property
    def cpp(self) -> str:
        return f"{self.family}<{', '.join(map(_cpp, self.parameters))}>"


def _cpp(parameter: str | int) -> str:
    if parameter in CPP_TYPES:
        return CPP_TYPES[str(parameter)]
    if parameter in LAYOUTS:
        return f"layout::{parameter}"
    if parameter in SPREADS:
        return f"vec_layout::{parameter}"
    if parameter in FORMS:
        return str(FORMS.index(str(parameter)))
    return {"shared": "false", "registers": "true"}.get(str(parameter), str(parameter))


def _tiles(family: str, dtypes: tuple[str, ...] = DTYPES) -> list[Instance]:
    chosen = product(dtypes, REGISTER_SHAPES, LAYOUTS)
    return [Instance(family, (dtype, *shape, layout)) for dtype, shape, layout in chosen]


def _register_instances() -> list[Instance]:
    conversions = product(DTYPES, DTYPES, REGISTER_SHAPES[:3], LAYOUTS)
    return [
        *_tiles("broadcasts"),
        *_tiles("reductions"),
        *_tiles("masks"),
        *_tiles("softmaxes", ("fp32",)),
        *_tiles("row_products"),
        *(Instance("either_orders", (dtype, *shape)) for dtype, shape in product(DTYPES, REGISTER_SHAPES)),
        *(Instance("decays", (dtype,)) for dtype in HALVES),
        *_tiles("layouts", HALVES),
        *_tiles("transposed_layouts"),
        *(Instance("conversions", (source, to, *shape, layout)) for source, to, shape, layout in conversions),
        *(Instance("rotations", (dtype, other)) for dtype, other in product(HALVES, (16, 48))),
        *(Instance("vectors", key) for key in product(DTYPES, (16, 48, 64, 128), SPREADS)),
    ]


def _memory_instances() -> list[Instance]:
    shared = product(DTYPES, DTYPES, SHARED_SHAPES, LAYOUTS, (1, 4))
    pairs = (*((dtype, dtype) for dtype in DTYPES), ("fp32", "bf16"), ("bf16", "fp32"))
    overall = product(pairs, ((16, 16), (32, 48)), LAYOUTS, (1, 4))
    return [
        *(Instance("shared_moves", (r, m, *shape, layout, scope)) for r, m, shape, layout, scope in shared),
        *(Instance("global_moves", (*pair, *shape, layout, scope)) for pair, shape, layout, scope in overall),
        *(Instance("pair_loads", (dtype, *shape)) for dtype, shape in product(HALVES, ((16, 16), (16, 64), (32, 32)))),
        *(Instance("pair_stores", shape) for shape in ((16, 16), (16, 64), (32, 32))),
        *(Instance("vector_rows", (dtype, *shape)) for dtype, shape in product(HALVES, ((16, 16), (16, 64), (32, 32)))),
        *(Instance("packed_moves", ("fp32", *shape, scope)) for shape in REGISTER_SHAPES for scope in (1, 4)),
        *(Instance("group_moves", (t, *shape, w)) for t, shape, w in product(DTYPES, SHARED_SHAPES, (1, 4))),
        *(Instance("copies", (dtype, *shape)) for dtype, shape in product(DTYPES, COPY_SHAPES)),
        *(Instance("copies_4d", (dtype, *shape)) for dtype, shape in product(DTYPES, COPY_SHAPES[:4])),
        *(Instance("transposed_loads", key) for key in product(HALVES, (16, 32), (16, 64, 80))),
        *(Instance("group_vector_loads", (r, m, rows)) for r, m, rows in product(DTYPES, DTYPES, (16, 32))),
        *(Instance("group_vectors", (*pair, rows)) for pair, rows in product(pairs, (16, 48))),
        *(
            Instance("shared_moves", ("fp32", "e4m3", *shape, layout, scope))
            for shape, layout, scope in product(E4M3_SHAPES, LAYOUTS, (1, 4))
        ),
        *(Instance("copies", ("e4m3", *shape)) for shape in E4M3_SHAPES),
        *(Instance("copies_4d", ("e4m3", *shape)) for shape in E4M3_SHAPES[:2]),
        *(Instance("vector_copies", key) for key in product(DTYPES, (16, 64, 256))),
    ]


def _multiply_instances() -> list[Instance]:
    return [
        *(Instance("multiplies", (t, *mnk, form)) for t, mnk, form in product(HALVES, WARP_MULTIPLIES, FORMS)),
        *(
            Instance("group_multiplies", (dtype, *mnk, form, "shared"))
            for dtype, mnk, form in product(HALVES, GROUP_MULTIPLIES, FORMS)
        ),
        *(
            Instance("group_multiplies", (dtype, *mnk, form, "registers"))
            for dtype, mnk, form in product(HALVES, OPERAND_MULTIPLIES, FORMS[:2])
        ),
        *(Instance("group_multiplies", ("e4m3", *mnk, "ABt", "shared")) for mnk in E4M3_MULTIPLIES),
        *(
            Instance("complex_multiplies", (dtype, *mnk, where))
            for dtype, mnk, where in product(HALVES, OPERAND_MULTIPLIES, ("shared", "registers"))
        ),
        *(Instance("complex_maps", (dtype, *shape)) for dtype, shape in product(DTYPES, ((16, 16), (32, 64)))),
        *(Instance("exchanges", key) for key in product(DTYPES, (32, 64))),
        *(Instance("butterflies", ("fp32", cols)) for cols in (32, 96)),
        *(Instance("second_orders", (dtype,)) for dtype in HALVES),
        *(Instance("halves", (r, m, cols)) for r, m, cols in product(DTYPES, HALVES, (16, 64)) if r in ("fp32", m)),
    ]


# One shared library each, so that none takes long to compile.
BINARIES: dict[str, list[Instance]] = {
    "maps": _tiles("maps"),
    "registers": _register_instances(),
    "memory": _memory_instances(),
    "multiplies": _multiply_instances(),
}


def write_source(binary: str, folder: Path) -> Path:
    """Writes `folder/<binary>.cu`: the table of the binary's instances and the function that runs one."""
    lines = [f'    {{"{i.name}", start<{i.cpp}>}},' for i in BINARIES[binary]]
    source = folder / f"{binary}.cu"
    source.write_text(
        "\n".join(
            [
                '#include "operations.cuh"',
                "",
                "static const entry table[] = {",
                *lines,
                "};",
                'extern "C" __attribute__((visibility("default"))) int run_case(const char* name, const arguments* a,',
                "                                                               char* message, int size) {",
                f"    return run_from(table, {len(lines)}, name, a, message, size);",
                "}",
                "",
            ]
        )
    )
    return source
