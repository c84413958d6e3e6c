"""What every family of operations.cuh does, in NumPy: by its name, the cases of an instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from tile_cases import Instance
from tile_expected import Case
from tile_memory import (
    copies,
    copies_4d,
    global_moves,
    group_moves,
    group_vector_loads,
    group_vectors,
    packed_moves,
    pair_loads,
    pair_stores,
    shared_moves,
    transposed_loads,
    vector_copies,
    vector_rows,
)
from tile_products import (
    butterflies,
    complex_maps,
    complex_multiplies,
    exchanges,
    group_multiplies,
    halves,
    multiplies,
)
from tile_registers import (
    broadcasts,
    conversions,
    decays,
    either_orders,
    layouts,
    maps,
    masks,
    reductions,
    rotations,
    row_products,
    second_orders,
    softmaxes,
    transposed_layouts,
    vectors,
)

FAMILIES: dict[str, Callable[[Instance, np.random.Generator], Iterator[Case]]] = {
    "maps": maps,
    "broadcasts": broadcasts,
    "reductions": reductions,
    "masks": masks,
    "softmaxes": softmaxes,
    "row_products": row_products,
    "either_orders": either_orders,
    "second_orders": second_orders,
    "decays": decays,
    "conversions": conversions,
    "layouts": layouts,
    "transposed_layouts": transposed_layouts,
    "rotations": rotations,
    "vectors": vectors,
    "shared_moves": shared_moves,
    "global_moves": global_moves,
    "pair_loads": pair_loads,
    "pair_stores": pair_stores,
    "packed_moves": packed_moves,
    "group_moves": group_moves,
    "copies": copies,
    "copies_4d": copies_4d,
    "transposed_loads": transposed_loads,
    "group_vector_loads": group_vector_loads,
    "group_vectors": group_vectors,
    "vector_copies": vector_copies,
    "vector_rows": vector_rows,
    "multiplies": multiplies,
    "group_multiplies": group_multiplies,
    "complex_multiplies": complex_multiplies,
    "complex_maps": complex_maps,
    "exchanges": exchanges,
    "butterflies": butterflies,
    "halves": halves,
}
