// The slots of what images are resampled with: interpolation along one dimension, sampling at given
// points, and the unfolding of windows into columns.
#pragma once

#include <vector>

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Interpolation along one dimension is a weighted sum of a few inputs for each output. Modes differ
// only in these tables.
struct ResampleTable {
  int64_t in = 0, out = 0;
  int64_t taps = 1;            // the most inputs that an output looks at
  std::vector<int32_t> index;  // (out, taps)
  std::vector<double> weight;  // (out, taps)
  std::vector<int32_t> count;  // (out): how many of the taps are used
  bool copies = false;         // every output is one input
};

enum class SampleMode : int64_t { bilinear = 0, nearest = 1, bicubic = 2 };
enum class SamplePadding : int64_t { zeros = 0, border = 1, reflection = 2 };
struct SampleOptions {
  SampleMode mode;
  SamplePadding padding;
  bool align_corners;
};

struct WindowShape {  // of two dimensions
  int64_t kernel[2], dilation[2], padding[2], stride[2];
  int64_t in[2], out[2];  // sizes of the image, and how many windows fit
};

namespace kernels {

// x: (outer, in, inner) and out: (outer, out, inner), contiguous; and the adjoint, which fills
// grad_x.
SLOT(resample, void(const Tensor& x, const Tensor& out, const ResampleTable& table))
SLOT(resample_backward, void(const Tensor& grad, const Tensor& grad_x, const ResampleTable& table))

// x: (N, C, D, H, W); grid: (N, points, rank) with coordinates in [-1, 1], the last dimension of x
// first; out: (N, C, points). All are contiguous; with rank 2 D is 1, with rank 1 H too.
SLOT(grid_sample, void(const Tensor& x, const Tensor& grid, const Tensor& out, SampleOptions how))
// Adds to grad_x, fills grad_grid; either may be undefined.
SLOT(grid_sample_backward, void(const Tensor& grad, const Tensor& x, const Tensor& grid,
                                const Tensor& grad_x, const Tensor& grad_grid, SampleOptions how))

// x: (N, C, H, W); columns: (N, C * kernel, windows); both contiguous. col2im adds up.
SLOT(im2col, void(const Tensor& x, const Tensor& columns, const WindowShape& shape))
SLOT(col2im, void(const Tensor& columns, const Tensor& x, const WindowShape& shape))

}  // namespace kernels
}  // namespace flambeau
