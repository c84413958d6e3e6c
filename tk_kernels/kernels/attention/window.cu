// The forward kernel with a window.
#define TK_ATTENTION_WINDOW
#include "forward.cu"
