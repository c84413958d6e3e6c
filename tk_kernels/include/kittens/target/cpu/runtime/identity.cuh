// Who am I: defined with the rest of the runtime, declared early for the front end.
#pragma once

namespace kittens {
int warp_index();
int warpgroup_index();
int warp_in_group();
int block_index();
int block_count();
int cluster_rank();
}  // namespace kittens
