// The backward kernels by warps with a window.
#define TK_ATTENTION_WINDOW
#include "by_warps_backward.cu"
