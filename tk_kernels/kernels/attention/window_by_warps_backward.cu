// The backward kernels by warps with a window.
namespace tk::attention {
constexpr bool windowed = true;
}

#include "by_warps_backward.cu"
