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
    require_tensor(name, tensor, 1, {type});
    if (tensor.device().device_type != kDLCPU || !tensor.IsContiguous())
        TVM_FFI_THROW(ValueError) << name << ": needs to be contiguous, on the CPU";
    return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.size(0))};
}

plans::costs costs_of(const TensorView& costs) {
    const auto values = host<const double>("costs", costs, float64);
    if (values.size() != 8) TVM_FFI_THROW(ValueError) << "costs: got " << values.size() << " numbers, needs 8";
    return {values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]};
}

// Writes a plan into `buffer`, whose sizes are the header's ints 1 to 11 in `sizes`; returns the predicted time in us.
double make(TensorView sizes, std::int64_t schedule, TensorView costs, TensorView lengths, TensorView buffer) {
    const auto n = host<const std::int32_t>("sizes", sizes, int32);
    if (n.size() != 11) TVM_FFI_THROW(ValueError) << "sizes: got " << n.size() << " numbers, needs 11";
    const plans::shape shape{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10]};
    const auto of = host<const std::int32_t>("lengths", lengths, int32);
    const auto to = host<std::int32_t>("buffer", buffer, int32);
    const int least = plans::least_capacity(shape.tiles(), shape.blocks);
    if (shape.capacity < least)
        TVM_FFI_THROW(ValueError) << "capacity: got " << shape.capacity << " instructions a block, needs at least "
                                  << least << " for " << shape.tiles() << " tiles on " << shape.blocks << " blocks";
    if (shape.counters < plans::most_counters(shape.blocks) || shape.slots < plans::most_slots(shape.blocks))
        TVM_FFI_THROW(ValueError) << "sizes: got " << shape.counters << " counters and " << shape.slots
                                  << " slots, needs " << plans::most_counters(shape.blocks) << " and "
                                  << plans::most_slots(shape.blocks);
    if (std::int64_t(of.size()) != shape.batch || std::int64_t(to.size()) != shape.ints())
        TVM_FFI_THROW(ValueError) << "sizes: got " << of.size() << " lengths and " << to.size() << " ints, needs "
                                  << shape.batch << " and " << shape.ints();
    for (std::size_t i = 0; i < of.size(); ++i) {
        if (of[i] < 0) TVM_FFI_THROW(ValueError) << "seqlens: sequence " << i << " has " << of[i] << " keys";
    }
    double time = 0;
    launching(
        [&] { time = plans::make(shape, static_cast<plans::schedule>(schedule), costs_of(costs), of, to.data()); });
    return time;
}

// What is wrong with a plan for these lengths, or nothing.
std::string verify(TensorView buffer, TensorView lengths) {
    const auto plan = host<const std::int32_t>("buffer", buffer, int32);
    return plans::verify(plan.data(), std::int64_t(plan.size()), host<const std::int32_t>("lengths", lengths, int32));
}

// The time in us that a verified plan takes at other costs.
double predict(TensorView buffer, TensorView costs) {
    const auto plan = host<const std::int32_t>("buffer", buffer, int32);
    double time = 0;
    launching([&] {
        plans::shape_of(plan.data(), std::int64_t(plan.size()));
        time = plans::predict(plan.data(), costs_of(costs));
    });
    return time;
}

// By kind, 0 for MLA and 1 for grouped heads: the most rows of a tile, and the keys of a step.
std::int64_t most_rows_per_tile(std::int64_t kind) {
    return kind == 0 ? plans::mla_rows_per_tile : plans::gqa_most_tile_rows();
}
std::int64_t key_step(std::int64_t kind) { return kind == 0 ? plans::mla_key_step : plans::gqa_key_step; }
std::int64_t usual_capacity(std::int64_t tiles, std::int64_t blocks) {
    return plans::usual_capacity(narrow(tiles), narrow(blocks));
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(make, make);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(verify, verify);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(predict, predict);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(most_rows_per_tile, most_rows_per_tile);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(key_step, key_step);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(usual_capacity, usual_capacity);
