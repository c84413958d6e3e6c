// Exports a Llama's token to Python: its program, and the launch on the caller's stream.
#include <cstdint>
#include <string>

#include "llama_decode.h"
#include "plan.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;
namespace llama = tk::llama_decode;

std::span<std::int32_t> host(const TensorView& tensor) {
    return {static_cast<std::int32_t*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

// What lies in the host's memory: `made` has the header, or all of a program.
std::string refusal(TensorView made) { return llama::refusal(llama::shape(host(made).data())); }
void make(TensorView made) { llama::make(host(made)); }
std::string check(TensorView made) { return kittens::program::check(host(made).data(), llama::exchange_of); }
std::int64_t scratch_floats(TensorView made) { return llama::shape(host(made).data()).floats(); }

// Everything is contiguous; the cache is written where it lies.
std::int64_t llama_decode(TensorView logits, TensorView tokens, TensorView positions, TensorView k, TensorView v,
                          TensorView embedding, TensorView qkv, TensorView out, TensorView gate, TensorView up,
                          TensorView down, TensorView head, TensorView norms, TensorView cosine, TensorView sine,
                          Optional<TensorView> chosen, Optional<TensorView> bias, Optional<TensorView> head_norms,
                          TensorView program, TensorView own, TensorView words, TensorView scratch, double epsilon,
                          std::int64_t in_flight, std::int64_t in_flight_head) {
    const auto data = [](const char* name, const TensorView& tensor) {
        if (!is_dense(tensor))
            TVM_FFI_THROW(ValueError) << name << ": needs to be contiguous, from a multiple of 16 bytes on";
        return tensor.data_ptr();
    };
    const auto integers = [](const char* name, const TensorView& tensor) {
        if (!tensor.IsContiguous()) TVM_FFI_THROW(ValueError) << name << ": needs to be contiguous";
        return static_cast<int*>(tensor.data_ptr());
    };
    const auto given = [&](const char* name, const Optional<TensorView>& tensor) {
        return tensor.has_value() ? data(name, tensor.value()) : nullptr;
    };
    const llama::problem problem{data("qkv", qkv),
                                 data("out", out),
                                 data("gate", gate),
                                 data("up", up),
                                 data("down", down),
                                 data("head", head),
                                 data("k_cache", k),
                                 data("v_cache", v),
                                 data("embedding", embedding),
                                 data("norms", norms),
                                 given("bias", bias),
                                 given("head_norms", head_norms),
                                 static_cast<const float*>(data("cos", cosine)),
                                 static_cast<const float*>(data("sin", sine)),
                                 integers("positions", positions),
                                 integers("tokens", tokens),
                                 static_cast<float*>(data("logits", logits)),
                                 chosen.has_value() ? integers("chosen", chosen.value()) : nullptr,
                                 static_cast<float*>(scratch.data_ptr()),
                                 static_cast<const int*>(program.data_ptr()),
                                 static_cast<int*>(words.data_ptr()),
                                 k.size(3),
                                 epsilon,
                                 chosen.has_value() ? narrow(chosen.value().size(1)) : 1,
                                 narrow(in_flight),
                                 narrow(in_flight_head)};
    launching_blocks([&] { llama::launch(problem, host(own), stream_of(logits)); }, llama::stalled);
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(refusal, refusal);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make, make);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(check, check);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scratch_floats, scratch_floats);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(llama_decode, llama_decode);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stalled, llama::stalled);
