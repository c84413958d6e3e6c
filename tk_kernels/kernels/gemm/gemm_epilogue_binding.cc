// Exports the bf16 GEMM with an epilogue to Python: launches on the caller's stream.
#include <cstdint>

#include "arguments.h"
#include "gemm_epilogue.h"
#include "tk/binding.h"

namespace {

using namespace tk::binding;

// What the epilogue reads it reads two elements at a time.
void require_pairs(const char* name, const matrix& m) {
    if (m.col_stride != 1 || m.row_stride % 2 != 0 || reinterpret_cast<std::uintptr_t>(m.data) % 4 != 0)
        TVM_FFI_THROW(ValueError) << name << ": needs dense columns, and rows that begin at multiples of 4 bytes";
}

// Computes out = residual + gate activation(a b + bias); bias (1, N), gate (batches, N), residual (M, N), all with
// dense columns and rows that begin at multiples of 4 bytes; where N is odd, each row is followed by an element that
// may be read. Returns 0 when it is launched, else launches nothing and returns copies_of.
std::int64_t gemm_epilogue(TensorView a, TensorView b, TensorView out, std::int64_t copied, Optional<TensorView> bias,
                           std::int64_t function, Optional<TensorView> gate, Optional<TensorView> residual,
                           std::int64_t stages, std::int64_t persistent, std::int64_t order, std::int64_t tile_m,
                           std::int64_t tile_n, std::int64_t cluster_m, std::int64_t cluster_n, std::int64_t schedule,
                           std::int64_t split) {
    const std::int64_t M = a.size(0), K = a.size(1), N = b.size(1);
    const matrix ma = as_matrix(a), mb = as_matrix(b), mo = as_matrix(out);
    tk::gemm_epilogue::epilogue e;
    e.function = static_cast<tk::gemm_epilogue::activation>(function);
    if (bias.has_value()) {
        const matrix m = as_matrix(bias.value());
        require_pairs("bias", m);
        e.bias = m.data;
    }
    if (gate.has_value()) {
        const matrix m = as_matrix(gate.value());
        require_pairs("gate", m);
        e.gate = m.data, e.gate_batches = m.rows, e.gate_stride = m.row_stride;
    }
    if (residual.has_value()) {
        const matrix m = as_matrix(residual.value());
        require_pairs("residual", m);
        e.residual = m.data, e.residual_stride = m.row_stride;
    }
    const std::int64_t copies = copies_of(ma, mb, mo, copied);
    if (copies != 0) return copies;

    const tk::gemm_epilogue::options options{narrow(stages),    narrow(persistent), narrow(order),
                                             narrow(tile_m),    narrow(tile_n),     narrow(cluster_m),
                                             narrow(cluster_n), narrow(schedule),   narrow(split)};
    launching([&] {
        tk::gemm_epilogue::launch(
            {mo.data, ma.data, mb.data, M, N, K, ma.row_stride, mb.row_stride, mo.row_stride, (copied & 3) != 0}, e,
            options, stream_of(a));
    });
    return 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_epilogue, gemm_epilogue);
