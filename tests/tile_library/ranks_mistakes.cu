// Ranks that hand data to one another, each program with one mistake: for the cpu target.
#include "ranks_programs.cuh"

namespace {

#define SHARES(mistake) {"shares_" #mistake, start<shares<sharing::mistake>>}
#define ENGINE(mistake) {"engine_" #mistake, start<by_engine<engine::mistake>>}
#define DIRECT(mistake) {"direct_" #mistake, start_behind_reader<direct<directly::mistake>>}
#define MEETINGS(mistake) {"meetings_" #mistake, start<meetings<meeting::mistake>>}

const entry programs[] = {
    SHARES(no_await),      SHARES(short_target),    SHARES(no_signal),    SHARES(wrong_rank),
    SHARES(wrong_flag),    SHARES(signals_first),   SHARES(one_set),      SHARES(set_of_before),
    SHARES(not_retired),   SHARES(one_not_retired), SHARES(used_after),   SHARES(cleared),
    SHARES(own_counter),   SHARES(undeclared),      SHARES(epoch_late),   SHARES(one_flag_for_all),
    SHARES(does_not_rise), SHARES(no_such_flag),    SHARES(no_such_rank), ENGINE(read_wait),
    ENGINE(wait_after),    ENGINE(load_too_early),  DIRECT(not_opened),   DIRECT(opened_by_another),
    DIRECT(opened_late),   MEETINGS(no_second),     MEETINGS(too_early),
};

}  // namespace

#include "ranks_main.cuh"
