// The backward kernels with a window.
#define TK_ATTENTION_WINDOW
#include "backward.cu"
