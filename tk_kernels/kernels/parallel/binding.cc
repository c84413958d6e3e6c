// Exports the all-reduce to Python: a launch of this rank on the caller's stream.
#include "all_reduce.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// x and out of equal sizes, dense; staging and words: int64 addresses by rank, in memory of the host.
void all_reduce(TensorView x, TensorView out, TensorView staging, TensorView words, std::int64_t staging_bytes,
                std::int64_t rank, bool two_shot, std::int64_t blocks) {
    using namespace tk::all_reduce;
    const problem p{x.data_ptr(),
                    out.data_ptr(),
                    x.numel(),
                    narrow(rank),
                    narrow(staging.numel()),
                    static_cast<const std::int64_t*>(staging.data_ptr()),
                    static_cast<const std::int64_t*>(words.data_ptr()),
                    staging_bytes};
    launching_blocks([&] { launch(p, two_shot ? way::two_shot : way::one_shot, narrow(blocks), stream_of(x)); },
                     [] { return std::string(tk::all_reduce::stalled()); });
}

std::int64_t staging_elements(std::int64_t numbers, std::int64_t ranks) {
    return tk::all_reduce::staging_elements(numbers, narrow(ranks));
}
void begin_world(std::int64_t ranks) { tk::all_reduce::begin_world(narrow(ranks)); }
void run_world() {
    launching([] { tk::all_reduce::run_world(); });
}
std::string stalled() { return tk::all_reduce::stalled(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(all_reduce, all_reduce);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(staging_elements, staging_elements);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(words, tk::all_reduce::words);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(begin_world, begin_world);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run_world, run_world);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stalled, stalled);
