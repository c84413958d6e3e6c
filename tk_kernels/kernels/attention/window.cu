// The forward kernel with a window.
namespace tk::attention {
constexpr bool windowed = true;
}

#include "forward.cu"
