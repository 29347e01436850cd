// The slots of random draws. Each fills a tensor; the op around it has checked the arguments and
// holds the generator's mutex. Where draws depend on the order of elements, it is memory order.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/generator.h"
#include "flambeau/tensor/tensor.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

// The integers of [base, base + range); a range of 0 stands for all 2^64. `wide` draws take 64 bits
// of the generator, others 32.
struct IntegerRange {
  int64_t base = 0;
  uint64_t range = 0;
  bool wide = true;
};

// How the numbers of dropout are dealt out: to groups of neighbours, one by one over the threads,
// or in the order of memory from a single stream, as PyTorch's attention of float32 does.
enum class DropOrder : uint8_t { neighbours, one_by_one, sequence };

namespace kernels {
SLOT(uniform, void(const Tensor& out, double from, double to, Generator& generator))
SLOT(normal, void(const Tensor& out, double mean, double std, Generator& generator))
SLOT(log_normal, void(const Tensor& out, double mean, double std, Generator& generator))
SLOT(exponential, void(const Tensor& out, double rate, Generator& generator))
SLOT(cauchy, void(const Tensor& out, double median, double sigma, Generator& generator))
SLOT(geometric, void(const Tensor& out, double p, Generator& generator))
SLOT(random_integers, void(const Tensor& out, IntegerRange range, Generator& generator))
// `hit` with probability p, else 0.
SLOT(bernoulli, void(const Tensor& out, double p, double hit, Generator& generator))
SLOT(bernoulli_each, void(const Tensor& out, const Tensor& p, Generator& generator))
// Dropout in one pass: out = x / keep where mask, drawn with probability keep, is true, else 0. All
// tensors are dense and lie alike. Devices without it compose dropout of other draws.
SLOT(dropout, void(const Tensor& x, double keep, const Tensor& out, const Tensor& mask,
                   DropOrder order, Generator& generator))
SLOT(dropout_backward,
     void(const TensorIter& iter, double scale))  // out, g, mask: g * mask * scale
SLOT(poisson, void(const Tensor& out, const Tensor& rate, Generator& generator))
SLOT(permutation, void(const Tensor& out, Generator& generator))  // one-dimensional
// Complains about elements outside [0, 1] when the device is next waited for; devices that need not
// be waited for have none. Contiguous.
SLOT(check_probabilities, void(const Tensor& probabilities))
// Complains about rows of `weights` (contiguous) that cannot be drawn by: elements that are
// negative or not finite, or none above zero.
SLOT(check_weights, void(const Tensor& weights))
// Rows of `weights` (contiguous) give rows of indices in `out` (contiguous int64).
SLOT(multinomial, void(const Tensor& out, const Tensor& weights, Generator& generator))
// The points of a Sobol sequence after `quasi` (integers of 30 bits, one a dimension), which
// becomes the last of them: out is (points, dimensions), `directions` (dimensions, 30), `done` the
// number of steps before. All contiguous.
SLOT(sobol_draw,
     void(const Tensor& out, const Tensor& quasi, const Tensor& directions, int64_t done))
// Here all tensors are contiguous and of one shape and dtype.
SLOT(standard_gamma, void(const Tensor& out, const Tensor& shape, Generator& generator))
SLOT(standard_gamma_grad, void(const Tensor& out, const Tensor& shape, const Tensor& sample))
// Rows along the last dimension sum to one.
SLOT(dirichlet, void(const Tensor& out, const Tensor& concentration, Generator& generator))
SLOT(dirichlet_grad,
     void(const Tensor& out, const Tensor& x, const Tensor& alpha, const Tensor& total))
SLOT(binomial,
     void(const Tensor& out, const Tensor& count, const Tensor& prob, Generator& generator))
}  // namespace kernels

}  // namespace flambeau
