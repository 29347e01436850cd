// The rows of unary.def for integers and bool.
#define ROW_GROUP Group::integral
#include "flambeau/cuda/elementwise/unary.cuh"
