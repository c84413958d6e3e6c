// Exports planning to Python. Its tensors lie in the host's memory; the operator copies a plan to its device.
#include <cstdint>
#include <string>

#include "decode_plan.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;
namespace plans = tk::decode_plan;

constexpr DLDataType float64{kDLFloat, 64, 1};

// Numbers of one type that lie one after another in the host's memory.
template <typename T> std::span<T> host(const char* name, const TensorView& tensor, const DLDataType& type) {
    if (!is_type(tensor, type) || tensor.device().device_type != kDLCPU || !tensor.IsContiguous())
        TVM_FFI_THROW(ValueError) << name << ": needs to be contiguous, on the CPU, of its type";
    return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.size(0))};
}

plans::costs costs_of(const TensorView& costs) {
    const auto values = host<const double>("costs", costs, float64);
    return {values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]};
}

// Writes a plan into `buffer`, whose header says its sizes; returns the predicted time in us.
double make(std::int64_t schedule, TensorView costs, TensorView lengths, TensorView buffer) {
    double time = 0;
    launching([&] {
        time = plans::make(static_cast<plans::schedule>(schedule), costs_of(costs),
                           host<const std::int32_t>("lengths", lengths, int32),
                           host<std::int32_t>("buffer", buffer, int32));
    });
    return time;
}

// What is wrong with a plan for these lengths, or nothing.
std::string verify(TensorView buffer, TensorView lengths) {
    const auto plan = host<const std::int32_t>("buffer", buffer, int32);
    return plans::verify(plan.data(), std::int64_t(plan.size()), host<const std::int32_t>("lengths", lengths, int32));
}

std::int64_t gqa_most_tile_rows() { return plans::gqa_most_tile_rows(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(make, make);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(verify, verify);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gqa_most_tile_rows, gqa_most_tile_rows);
