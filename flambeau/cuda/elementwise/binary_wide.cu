// The rows of binary.def for float32 and float64.
#define ROW_GROUP Group::wide
#include "flambeau/cuda/elementwise/binary.cuh"
