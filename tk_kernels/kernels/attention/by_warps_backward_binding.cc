// Exports attention's backward pass by warps to Python.
#include "arguments.h"

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_backward, tk::attention::attention_backward);
