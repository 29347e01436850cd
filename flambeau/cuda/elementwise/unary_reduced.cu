// The rows of unary.def for float16 and bfloat16.
#define ROW_GROUP Group::reduced
#include "flambeau/cuda/elementwise/unary.cuh"
