// Exports the recording kernels under the names of those that they stand for, by the same bindings.
#include "mla_decode_binding.cc"
#include "paged_attention_decode_binding.cc"
#include "decode_trace.h"

namespace {

constexpr DLDataType int64{kDLInt, 64, 1};

// (blocks, roles, instructions, numbers), zeros, beside the tensors of the call that follows.
void record_into(TensorView log) {
    require_tensor("log", log, 4, {int64});
    if (!log.IsContiguous()) TVM_FFI_THROW(ValueError) << "log: needs to be contiguous";
    tk::decode_trace::record_into(static_cast<std::uint64_t*>(log.data_ptr()), narrow(log.size(2)));
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(record_into, record_into);
