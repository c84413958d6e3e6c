// A program: what the blocks of one launch do, as one buffer of int32. Plain C++: the host writes it, blocks read it.
//
// A header of 16 ints, then one queue for each block, `capacity` instructions of 16 ints each. A queue ends with a stop
// or with its capacity. An instruction has an opcode, operands, the counter that it awaits and until when, and the
// counter that it raises when it is done. Where these stand, and what the rest of the header says, is the kernel's own
// layout. Sizes are fixed when a program is made, so that a CUDA graph's replay finds another one at the same address
// and in the same shape.
#pragma once

#include <cstdint>

namespace kittens::program {

constexpr int header_ints = 16, instruction_ints = 16;

// The header, by index; what follows is the kernel's own.
namespace header {
constexpr int version = 0, blocks = 1;
constexpr int capacity = 2;  // instructions a block
constexpr int counters = 3;
}  // namespace header

// Ints of the scratch that so many counters are.
constexpr std::int64_t words_for(std::int64_t counters) { return counters + 1; }

// An instruction, by index; what follows is the kernel's own.
namespace field {
constexpr int opcode = 0;
}

namespace opcode {
constexpr int stop = 0;
}

}  // namespace kittens::program
