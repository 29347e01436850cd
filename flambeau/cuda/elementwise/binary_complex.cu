// The rows of binary.def for complex numbers.
#define ROW_GROUP Group::complex
#include "flambeau/cuda/elementwise/binary.cuh"
