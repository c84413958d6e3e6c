// Ranks that hand data to one another, as they should: for every target.
#include "ranks_programs.cuh"

namespace {

const entry programs[] = {
    {"shares_none", start<shares<sharing::none>>},
    {"engine_none", start<by_engine<engine::none>>},
    {"direct_none", start_behind_reader<direct<directly::none>>},
    {"meetings_none", start<meetings<meeting::none>>},
};

}  // namespace

#include "ranks_main.cuh"
