// Exports the collectives to Python: a launch of this rank on the caller's stream.
#include "collectives.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// in and out dense, of `cols` columns; staging and words: int64 addresses by rank, in memory of the host.
void collective(std::int64_t what, TensorView in, TensorView out, std::int64_t cols, TensorView staging,
                TensorView words, std::int64_t staging_bytes, std::int64_t rank, std::int64_t blocks) {
    const tk::collectives::problem p{static_cast<tk::collectives::what>(what),
                                     in.data_ptr(),
                                     out.data_ptr(),
                                     cols,
                                     narrow(rank),
                                     narrow(staging.numel()),
                                     static_cast<const std::int64_t*>(staging.data_ptr()),
                                     static_cast<const std::int64_t*>(words.data_ptr()),
                                     staging_bytes};
    launching_blocks([&] { tk::collectives::launch(p, narrow(blocks), stream_of(in)); }, tk::collectives::stalled);
}

std::int64_t staging_bytes_for(std::int64_t cols, std::int64_t ranks) {
    return tk::collectives::staging_bytes_for(cols, narrow(ranks));
}
void begin_world(std::int64_t ranks) { tk::collectives::begin_world(narrow(ranks)); }
void run_world() { launching(tk::collectives::run_world); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(collective, collective);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(staging_bytes_for, staging_bytes_for);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(words, tk::collectives::words);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(begin_world, begin_world);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run_world, run_world);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stalled, tk::collectives::stalled);
