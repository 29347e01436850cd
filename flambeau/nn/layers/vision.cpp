#include "flambeau/nn/layers/vision.h"

#include <algorithm>
#include <sstream>

#include "flambeau/base/warn.h"
#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {
namespace functional {

Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options) {
  return torch::_interpolate(input, options.size(),
                             options.scale_factor().value_or(std::vector<double>()),
                             enumtype::name_of(options.mode()), options.align_corners(),
                             options.recompute_scale_factor(), options.antialias());
}

Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleFuncOptions& options) {
  if (!options.align_corners()) {
    warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
        "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
        "documentation of grid_sample for details.");
  }
  // The op's codes are the positions of the words.
  return torch::grid_sampler(input, grid, static_cast<int64_t>(options.mode().index()),
                             static_cast<int64_t>(options.padding_mode().index()),
                             options.align_corners().value_or(false));
}

Tensor affine_grid(const Tensor& theta, IntSpan size, bool align_corners) {
  CHECK(theta.is_floating(), ValueError, "Expected theta to have floating point type, but got {}",
        theta->dtype);
  CHECK(size.size() == 4 || size.size() == 5, NotImplementedError,
        "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
        "Got size {}",
        to_text(size));
  const auto rank = static_cast<int64_t>(size.size()) - 2;
  CHECK(theta.dim() == 3 && theta.size(1) == rank && theta.size(2) == rank + 1, ValueError,
        "Expected a batch of {}D affine matrices of shape Nx{}x{} for size {}. Got {}.", rank, rank,
        rank + 1, to_text(size), to_text(theta.sizes()));
  CHECK(*std::min_element(size.begin(), size.end()) > 0, ValueError,
        "Expected non-zero, positive output size. Got {}", to_text(size));
  return torch::affine_grid_generator(theta, size, align_corners);
}

}  // namespace functional

Tensor UpsampleImpl::forward(const Tensor& input) {
  functional::InterpolateFuncOptions how;
  how.size(options.size()).scale_factor(options.scale_factor());
  std::visit([&](auto word) { how.mode(word); }, options.mode());
  return functional::interpolate(input, how.align_corners(options.align_corners()));
}
void UpsampleImpl::pretty_print(std::ostream& stream) const {
  Print print(stream, "Upsample");
  if (options.size()) {
    print("size", to_text(IntSpan(*options.size())));
  } else if (options.scale_factor()) {
    std::ostringstream factors;
    for (const double factor : *options.scale_factor())
      factors << (factors.tellp() > 0 ? ", " : "") << factor;
    print("scale_factor", '[' + factors.str() + ']');
  }
  print("mode", enumtype::get_enum_name(options.mode()));
}

}  // namespace flambeau::torch::nn
