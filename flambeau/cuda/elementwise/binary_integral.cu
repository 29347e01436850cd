// The rows of binary.def for integers and bool.
#define ROW_GROUP Group::integral
#include "flambeau/cuda/elementwise/binary.cuh"
