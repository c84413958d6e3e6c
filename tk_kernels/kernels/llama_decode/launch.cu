// The host side: what is taken, and by which kernel.
#include "launch.cuh"

namespace tk::llama_decode {

void launch_64(const problem&, std::span<const std::int32_t> own, void* stream);
void launch_128(const problem&, std::span<const std::int32_t> own, void* stream);

std::string refusal(const shape& s) {
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    if (s.dim != 64 && s.dim != 128) return "heads have " + text(s.dim) + " columns; there are kernels for 64 and 128";
    if (s.heads % s.kv_heads || s.heads / s.kv_heads > most_group)
        return text(s.heads) + " query heads share " + text(s.kv_heads) + " key heads; up to " + text(most_group) +
               " queries a key head are attended";
    if (s.width % 64 || s.inner % 64 || s.vocabulary % page_rows)
        return "width " + text(s.width) + " and inner width " + text(s.inner) +
               " need to be multiples of 64, and the vocabulary of " + text(s.vocabulary) + " one of 16";
    std::string words;
    const auto why = [&]<typename Kernel>(const Kernel&) {
        std::int64_t columns = 0;
        for (const int op : {opcode::qkv, opcode::out, opcode::down})
            columns = std::max(columns, std::int64_t(s.batch) * s.steps(op) * page_columns);
        if (s.width > Kernel::most_width)
            words = "a width of " + text(s.width) + " is more than a block keeps; it keeps " + text(Kernel::most_width);
        else if (2 * columns > Kernel::input_bytes)
            words = text(s.batch) + " inputs of up to " + text(columns / s.batch) + " columns need " +
                    text(2 * columns) + " bytes of shared memory, and " + text(Kernel::input_bytes) +
                    " are left beside the weights; a smaller batch fits";
    };
    if (s.batch > (s.width <= 2048 ? 8 : 4))
        return "a batch of " + text(s.batch) +
               "; there are kernels for 8 sequences up to a width of 2048, for 4 beyond";
    s.dim == 64 ? choose<64>(s, why) : choose<128>(s, why);
    return words;
}

std::string stalled() { return stalled_counter(); }

void launch(const problem& p, std::span<const std::int32_t> own, void* stream) {
    const shape s(own.data());
    if (const std::string words = refusal(s); !words.empty()) throw std::invalid_argument("llama_decode: " + words);
    if (p.chosen != nullptr && s.row_blocks(opcode::head) < s.blocks)
        throw std::invalid_argument("llama_decode: a vocabulary of " + std::to_string(s.vocabulary) +
                                    " has less than 16 tokens for each of " + std::to_string(s.blocks) +
                                    " blocks, which choose them together; make a plan for fewer blocks");
    s.dim == 64 ? launch_64(p, own, stream) : launch_128(p, own, stream);
}

}  // namespace tk::llama_decode
