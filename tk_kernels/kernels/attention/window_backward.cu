// The backward kernels with a window.
namespace tk::attention {
constexpr bool windowed = true;
}

#include "backward.cu"
