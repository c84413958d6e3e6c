// What a source of programs for ranks exports: a launch of one rank, and what runs such launches together.
#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int run_rank(const char* name, int rank, int ranks, void* const* staging, void* const* out, void* const* words,
                    void* const* counted, float value, char* message, int size) {
    return run_one(programs, name, rank, ranks, staging, out, words, counted, value, message, size);
}
EXPORT int begin_world(int ranks, char* message, int size) {
    return guarded([&] { collect_launches(ranks); }, message, size);
}
EXPORT int run_world(char* message, int size) {
    return guarded([] { run_collected(); }, message, size);
}
