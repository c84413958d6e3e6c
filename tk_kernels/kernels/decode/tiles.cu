// The rows that a tile can have. Host code alone.
#include "tiles.cuh"

#include "decode_plan.h"

namespace tk::decode_plan {

int gqa_most_tile_rows() { return gqa_most_rows_per_tile; }

}  // namespace tk::decode_plan
