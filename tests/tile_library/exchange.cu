// Blocks that hand data to one another, as they should: for every target. `crowd` is a grid that is too large.
#include "exchange_programs.cuh"

namespace {

const entry programs[] = {
    {"pass_none", start_resident<passing<pass::none>>},
    {"engine_none", start_resident<by_engine<engine::none>>},
    {"engine_plain_load", start_resident<by_engine<engine::plain_load>>},
    {"engine_plain_store", start_resident<by_engine<engine::plain_store>>},
    {"engine_copied", start_resident<by_engine<engine::copied>>},
    {"gather_none", start_resident<gathering<gather::none>>},
    {"gather_chained", start_resident<gathering<gather::chained>>},
    {"gather_added", start_resident<gathering<gather::added>>},
    {"relay_none", start_resident<relays<relay::none>>},
    {"stages_none", start_resident<stages<staging::none>>},
    {"meeting_none", start_resident<meetings<meeting::none>>},
    {"last_none", start_resident<lasts<last::none>>},
    {"last_awaited", start_resident<lasts<last::awaited>>},
    {"last_engine_none", start_resident<lasts_by_engine<last_engine::none>>},
    {"plain_none", start_plain<plain<plainly::none>>},
    {"queue", start_resident<resident_queue<tasks::none>>},
    {"repeated", start_thrice<meetings<meeting::none>>},
    {"crowd", start_crowd},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) int run_program(const char* name, void* out, void* mail, void* sums,
                                                                  void* words, void* table, void* queue, char* message,
                                                                  int size) {
    return run_one(programs, name, out, mail, sums, words, table, queue, message, size);
}
