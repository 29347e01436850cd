// The rows of unary.def for complex numbers.
#define ROW_GROUP Group::complex
#include "flambeau/cuda/elementwise/unary.cuh"
