// The rows of unary.def for float32 and float64.
#define ROW_GROUP Group::wide
#include "flambeau/cuda/elementwise/unary.cuh"
