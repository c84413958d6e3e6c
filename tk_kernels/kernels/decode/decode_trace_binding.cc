// Exports the recording kernels under the names of those that they stand for, by the same bindings.
#include "mla_decode_binding.cc"
#include "paged_attention_decode_binding.cc"
#include "decode_trace.h"

namespace {

// (blocks, roles, instructions, numbers), int64, zeros, beside the tensors of the call that follows.
void record_into(TensorView log) {
    tk::decode_trace::record_into(static_cast<std::uint64_t*>(log.data_ptr()), narrow(log.size(2)));
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(record_into, record_into);
