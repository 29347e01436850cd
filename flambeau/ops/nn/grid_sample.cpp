// grid_sampler: an image at the points of a grid; affine_grid_generator: the grid of an affine map.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/vision.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/nn/double_backward.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

void check_grid(const Tensor& input, const Tensor& grid) {
  const int64_t rank = input.dim() - 2;
  CHECK(input.dim() == 0 || grid.dim() == 0 || input.sizes()[0] == grid.sizes()[0], RuntimeError,
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
        "{} and grid with sizes {}",
        input.sizes(), grid.sizes());
  CHECK(rank < 1 || grid.dim() == 0 || grid.sizes().back() == rank, RuntimeError,
        "grid_sampler(): expected grid to have size {} in last dimension, but got grid with sizes "
        "{}",
        rank, grid.sizes());
  CHECK(rank >= 1 && rank <= 3 && grid.dim() == input.dim(), RuntimeError,
        "grid_sampler(): expected {}D input and grid with same number of dimensions, but got input "
        "with sizes {} and grid with sizes {}",
        rank >= 1 && rank <= 3 ? input.dim() : 4, input.sizes(), grid.sizes());
  CHECK(input.dtype() == grid.dtype(), RuntimeError, "expected scalar type {} but found {}",
        dtype_legacy_name(input.dtype()), dtype_legacy_name(grid.dtype()));
  for (int64_t d = 2; d < input.dim(); ++d) {
    CHECK(input.sizes()[d] > 0, RuntimeError,
          "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
          "sizes {} with dimension {} being empty",
          input.sizes(), d);
  }
}

// The shapes and the type in which kernels take image and grid.
struct Sampling {
  Tensor x, grid;  // (N, C, D, H, W) and (N, points, rank)
  explicit Sampling(const Tensor& input, const Tensor& points) {
    const auto wide = [](const Tensor& t) {
      return contiguous(dtypes::Reduced.has(t.dtype()) ? to(t, DType::float32) : t);
    };
    Dims sizes{input.sizes()[0], input.sizes()[1], 1, 1, 1};
    int64_t count = 1;
    for (int64_t d = 2; d < input.dim(); ++d) {
      sizes[5 - input.dim() + d] = input.sizes()[d];
      count *= points.sizes()[d - 1];
    }
    x = view(wide(input), sizes);
    grid = view(wide(points), {input.sizes()[0], count, input.dim() - 2});
  }
};

// The same in differentiable operations, for second derivatives: what kernels/grid_sample.h says of
// one place is said here of all of them.

// The taps of one dimension: inputs (-1: outside, where everything is zero) and their weights.
struct ComposedTap {
  Tensor index, weight;
};

Tensor composed_padding(const Tensor& raw, int64_t size, SampleOptions how) {
  if (how.padding == SamplePadding::zeros) return raw;
  Tensor at = raw;
  if (how.padding == SamplePadding::reflection) {
    const double low = how.align_corners ? 0 : -0.5;
    const auto span = static_cast<double>(how.align_corners ? size - 1 : size);
    if (span <= 0) return at * 0;
    const Tensor length = abs(at - low), flips = floor(detach(length) / span);
    const Tensor rest = length - flips * span;
    at = where(floor(flips / 2) * 2 == flips, rest + low, (span + low) - rest);
  }
  const auto last = static_cast<double>(size - 1);
  return where(at <= 0, Scalar(0.0), where(at >= last, Scalar(last), at));
}

ComposedTap composed_tap(const Tensor& at, const Tensor& weight, int64_t size) {
  const Tensor inside = (at >= 0) & (at < size);
  return {to(where(inside, at, Scalar(-1.0)), DType::int64), weight};
}

// Keys' cubic convolution at a distance, with a = -0.75.
Tensor composed_cubic(const Tensor& x) {
  constexpr double a = -0.75;
  const Tensor d = abs(x), near = ((a + 2) * d - (a + 3)) * d * d + 1;
  return where(d <= 1, near, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a);
}

std::vector<ComposedTap> composed_taps(const Tensor& x, int64_t size, SampleOptions how) {
  const auto length = static_cast<double>(size);
  const Tensor wide = how.align_corners ? (x + 1) * ((length - 1) / 2) : ((x + 1) * length - 1) / 2;
  const Tensor raw = where(abs(detach(wide)) < 1e9, wide, Scalar(-100.0));
  if (how.mode == SampleMode::bicubic) {
    const Tensor low = floor(detach(raw));
    std::vector<ComposedTap> taps;
    for (int step = -1; step < 3; ++step) {
      const Tensor at = composed_padding(low + step, size, how);
      taps.push_back(composed_tap(at, composed_cubic(raw - low - step), size));
    }
    return taps;
  }
  const Tensor at = composed_padding(raw, size, how);
  const Tensor low = floor(detach(at)), rest = at - low;
  if (how.mode == SampleMode::nearest) {
    // Of two as near, the even one. Its weight is one wherever the place is near it.
    const Tensor up = (rest > 0.5) | ((rest == 0.5) & (floor(low / 2) * 2 != low));
    return {composed_tap(low + up, at * 0 + 1, size)};
  }
  return {composed_tap(low, 1 - rest, size), composed_tap(low + 1, rest, size)};
}

Tensor composed_sampler(const Tensor& input, const Tensor& points, SampleOptions how) {
  const Sampling s(input, points);
  const Tensor flat = flatten(s.x, 2, -1);
  const Dims shape{s.x.sizes()[0], s.x.sizes()[1], s.grid.sizes()[1]};
  // One dimension after the other, the slowest first: all combinations of the taps so far.
  std::vector<ComposedTap> all{
      {zeros({}, {.dtype = DType::int64, .device = flat.device()}), ones({}, options_of(flat))}};
  for (int64_t d = s.grid.sizes()[2]; d-- > 0;) {
    const int64_t size = s.x.sizes()[4 - d];
    std::vector<ComposedTap> next;
    for (const ComposedTap& slow : all) {
      for (const ComposedTap& tap : composed_taps(select(s.grid, 2, d), size, how)) {
        const Tensor inside = (slow.index >= 0) & (tap.index >= 0);
        next.push_back(
            {where(inside, slow.index * size + tap.index, Scalar(-1)), slow.weight * tap.weight});
      }
    }
    all = std::move(next);
  }
  Tensor total = zeros(shape, options_of(flat));
  for (const ComposedTap& tap : all) {
    const Tensor index = expand(unsqueeze(clamp(tap.index, Scalar(0), std::nullopt), 1), shape);
    const Tensor weight = masked_fill(tap.weight, tap.index < 0, Scalar(0.0));
    total = total + gather(flat, 2, index) * unsqueeze(weight, 1);
  }
  Dims sizes{shape[0], shape[1]};
  for (int64_t d = 1; d + 1 < points.dim(); ++d) sizes.push_back(points.sizes()[d]);
  return to(view(total, sizes), input.dtype());
}

struct SampleRule {
  Saved input, grid;
  SampleOptions how;
  bool wants_input, wants_grid;

  void operator()(Grads& in, Grads& out) const {
    if (!in[0].defined()) return;
    const Tensor image = input(), points = grid();
    if (grad_enabled()) {
      double_backward_gradients({image, points}, in, out, [this](const std::vector<Tensor>& again) {
        return std::vector{composed_sampler(again[0], again[1], how)};
      });
      return;
    }
    const Sampling s(image, points);
    const Tensor g = contiguous(to(in[0], s.x.dtype()));
    const Tensor to_x = wants_input ? zeros(s.x.sizes(), options_of(s.x)) : Tensor();
    const Tensor to_grid = wants_grid ? zeros(s.grid.sizes(), options_of(s.grid)) : Tensor();
    const int64_t channels = s.x.sizes()[1], count = s.grid.sizes()[1];
    if (g.numel() != 0) {
      kernels::grid_sample_backward(g.device_type(), view(g, {s.x.sizes()[0], channels, count}),
                                    s.x, s.grid, to_x, to_grid, how);
    }
    if (wants_input) out[0] = to(view(to_x, image.sizes()), image.dtype());
    if (wants_grid) out[1] = to(view(to_grid, points.sizes()), points.dtype());
  }
};

Tensor grid_sampler(const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                    int64_t padding_mode, bool align_corners) {
  check_grid(input, grid);
  CHECK(
      interpolation_mode >= 0 && interpolation_mode <= 2 && padding_mode >= 0 && padding_mode <= 2,
      ValueError, "grid_sampler(): unknown interpolation mode {} or padding mode {}",
      interpolation_mode, padding_mode);
  const SampleOptions how{static_cast<SampleMode>(interpolation_mode),
                          static_cast<SamplePadding>(padding_mode), align_corners};
  Dims shape{input.sizes()[0], input.sizes()[1]};
  for (int64_t d = 1; d + 1 < grid.dim(); ++d) shape.push_back(grid.sizes()[d]);
  Tensor out;
  {
    const NoGrad off;
    const Sampling s(input, grid);
    out = make_tensor({shape[0], shape[1], s.grid.sizes()[1]}, s.x.dtype(), input.device());
    if (out.numel() != 0) kernels::grid_sample(out.device_type(), s.x, s.grid, out, how);
    out = detach(to(view(out, shape), input.dtype()));  // not a view of something hidden
  }
  if (Record r{grid.dim() == 5 ? "grid_sampler_3d" : "grid_sampler_2d", out, {input, grid}})
    r.all(SampleRule{r.save(input), r.save(grid), how, r.wants(0), r.wants(1)});
  return out;
}
#define GRID_SAMPLER(name)                                                                         \
  OP_FUNCTION(grid_sampler, name "(input, grid, interpolation_mode, padding_mode, align_corners)", \
              "input at the points of grid, given in coordinates from -1 to 1. Modes: 0 linear, "  \
              "1 nearest, 2 cubic; padding: 0 zeros, 1 border, 2 reflection.",                     \
              cpu_exact | cuda_widest | no_out)
GRID_SAMPLER("grid_sampler")
GRID_SAMPLER("grid_sampler_2d")
GRID_SAMPLER("grid_sampler_3d")
#undef GRID_SAMPLER

// Coordinates of the centres of n pixels, or, with corners aligned, from edge to edge.
Tensor pixel_points(int64_t n, bool align_corners, const Options& options) {
  if (n <= 1) return zeros({n}, options);
  const double span = align_corners ? 1.0 : static_cast<double>(n - 1) / static_cast<double>(n);
  const Tensor steps = arange(Scalar(0), Scalar(n), Scalar(1), options);
  return steps * (2 * span / static_cast<double>(n - 1)) + -span;
}

// The points of all pixels, a row each: their coordinates, the last dimension's first, and a one.
Tensor pixel_rows(IntSpan spatial, bool align_corners, const Options& options) {
  const auto rank = static_cast<int64_t>(spatial.size());
  std::vector<Tensor> coordinates;
  for (int64_t d = rank; d-- > 0;) {
    Dims shape(rank, 1);
    shape[d] = spatial[d];
    coordinates.push_back(
        expand(view(pixel_points(spatial[d], align_corners, options), shape), spatial));
  }
  coordinates.push_back(ones(spatial, options));
  return reshape(stack(coordinates, -1), {-1, rank + 1});
}

Tensor affine_grid_generator(const Tensor& theta, IntSpan size, bool align_corners) {
  const int64_t rank = static_cast<int64_t>(size.size()) - 2;
  CHECK((rank == 2 || rank == 3) && theta.dim() == 3 && theta.sizes()[1] == rank &&
            theta.sizes()[2] == rank + 1,
        RuntimeError,
        "affine_grid_generator needs 4d (spatial) or 5d (volumetric) size, and a batch of matrices "
        "to fit it, but got size {} and theta {}",
        size, theta.sizes());
  CHECK(
      theta.sizes()[0] == size[0], RuntimeError,
      "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
      size[0], rank + 1, theta.sizes()[0], rank + 1);
  const Dims spatial = size.from(2).dims();
  const Options options = options_of(theta);
  Dims shape{size[0]};
  for (const int64_t n : spatial) shape.push_back(n);
  shape.push_back(rank);
  Tensor out;
  {
    const NoGrad off;
    const Tensor rows = pixel_rows(spatial, align_corners, options);
    out = detach(view(matmul(rows, transpose(theta, 1, 2)), shape));
  }
  // Nothing is saved: the points are computed again.
  if (Record r{"affine_grid_generator", out, {theta}}) {
    r.wrt(0, [=, count = size[0]](const Tensor& g) {
      const Tensor flat = reshape(g, {count, -1, rank});
      return matmul(transpose(flat, 1, 2), pixel_rows(spatial, align_corners, options));
    });
  }
  return out;
}
OP_FUNCTION(affine_grid_generator, "affine_grid_generator(theta, size, align_corners)",
            "The grid of points that a batch of affine maps takes the pixels of an image to.",
            autocast_low | no_out)

}  // namespace
BATCH(grid_sampler, batch_items<0>)
BATCH(grid_sampler_2d, batch_items<0>)
BATCH(grid_sampler_3d, batch_items<0>)

}  // namespace flambeau
