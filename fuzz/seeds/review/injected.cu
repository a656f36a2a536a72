#include <torch/extension.h>
// a \
b
#define A f(/* c
d */ 1'000)
#if 0
/* #endif */ don't
#else
__global__ void K(float* y) {
  asm volatile("mov.u32 %0, %1; // e\n" "/" "* f */ ret;" : "=r"(a) : "r"(b));
  asm(R"x(.pragma "g"; ret; // h
)x");
  printf("i \" j" "k");
}
#endif
const char* s = u8R"t(l
)t";
%: error m
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "n"); }
