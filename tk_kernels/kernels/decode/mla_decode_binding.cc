// Exports MLA decode to Python.
#include "planned_binding.h"

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mla_decode, tk::decode_plan::paged<tk::mla_decode::launch>);
