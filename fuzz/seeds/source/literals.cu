// comment "with a string"
#include <torch/extension.h>
/* block 'x' */ const char* raw = R"tag( " // )tag"; const int n = 1'000; char c = '\'';
__global__ void k(float* x) { asm volatile("nanosleep.u32 1;"); if (x) x[0] = wmma + cub::x; }
