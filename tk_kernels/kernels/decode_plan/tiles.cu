// How many rows a tile has. Host code alone.
#include "tiles.cuh"

#include "decode_plan.h"

namespace tk::decode_plan {

int gqa_tile_rows(int rows) {
    if (rows <= gqa_few_rows_per_tile) return gqa_few_rows_per_tile;
    return rows <= gqa_rows_per_tile ? gqa_rows_per_tile : gqa_most_rows_per_tile;
}

}  // namespace tk::decode_plan
