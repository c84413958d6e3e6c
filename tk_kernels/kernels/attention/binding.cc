// Exports attention, forward and backward, to Python: launches on the caller's stream.
#include "arguments.h"
#include "choice.h"

namespace {

using namespace tk::attention;

// Writes out and lse. Returns as launch_forward does.
std::int64_t attention_forward(TensorView q, TensorView k, TensorView v, TensorView out, TensorView lse, bool causal,
                               double scale, std::int64_t order, std::int64_t synchronous, std::int64_t blocks_per_sm) {
    return launch_forward(q, k, v, lse, causal, scale, [&](const problem& p, float* lse_to) {
        const Tensor counter = scratch(1, q);
        tk::attention::forward(p, as_tensor(q), as_tensor(k), as_tensor(v), as_tensor(out), lse_to,
                               {narrow(order), narrow(synchronous), narrow(blocks_per_sm)},
                               static_cast<int*>(counter.data_ptr()), stream_of(q));
    });
}

// What choice.h predicts, in us: of attention's own kernel, or with rows of a tile of paged decode's.
double predicted_us(std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t queries,
                    std::int64_t keys, std::int64_t dim, std::int64_t multiprocessors, std::int64_t rows_per_tile) {
    const model::few_queries p{batch, heads, kv_heads, queries, keys, dim, multiprocessors};
    return rows_per_tile == 0 ? model::whole_us(p) : model::decode_us(p, rows_per_tile);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_forward, attention_forward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_backward, attention_backward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(predicted_us, predicted_us);
