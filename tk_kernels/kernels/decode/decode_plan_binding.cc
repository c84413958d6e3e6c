// Exports planning to Python. Its tensors lie in the host's memory; the operator copies a plan to its device.
#include <cstdint>
#include <string>

#include "decode_plan.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;
namespace plans = tk::decode_plan;

// Numbers of one type that lie one after another in the host's memory.
template <typename T> std::span<T> host(const TensorView& tensor) {
    return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

// Writes a plan into `buffer`, whose header says its sizes; returns the predicted time in us.
double make(std::int64_t schedule, TensorView costs, TensorView lengths, TensorView buffer) {
    double time = 0;
    if (costs.numel() * sizeof(double) != sizeof(plans::costs))
        TVM_FFI_THROW(ValueError) << "costs: got " << costs.numel() << " numbers, needs those of decode_plan.h";
    launching([&] {
        time = plans::make(static_cast<plans::schedule>(schedule), *static_cast<const plans::costs*>(costs.data_ptr()),
                           host<const std::int32_t>(lengths), host<std::int32_t>(buffer));
    });
    return time;
}

// What is wrong with a plan for these lengths, or nothing.
std::string verify(TensorView buffer, TensorView lengths) {
    return plans::verify(host<const std::int32_t>(buffer), host<const std::int32_t>(lengths));
}

std::int64_t gqa_most_tile_rows() { return plans::gqa_most_tile_rows(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(make, make);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(verify, verify);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gqa_most_tile_rows, gqa_most_tile_rows);
