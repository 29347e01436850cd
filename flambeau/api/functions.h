// Functions that C++ programs have and Python writes in another way: each is one call of an op.
#pragma once

#include "flambeau/torch.h"

namespace flambeau::torch {

inline int64_t numel(const Tensor& x) { return x.numel(); }
inline bool is_floating_point(const Tensor& x) { return x.is_floating_point(); }
inline bool is_complex(const Tensor& x) { return x.is_complex(); }
inline int64_t size(const Tensor& x, int64_t dim) { return x.size(dim); }
inline std::optional<Device> device_of(const Tensor& x) {
  return x.defined() ? std::optional<Device>(x.device()) : std::nullopt;
}
inline int64_t stride(const Tensor& x, int64_t dim) { return x.stride(dim); }
inline bool can_cast(ScalarType from, ScalarType to) { return flambeau::can_cast(from, to); }
inline ScalarType promote_types(ScalarType a, ScalarType b) {
  return flambeau::promote_types(a, b);
}
inline ScalarType result_type(const Operand& a, const Operand& b) {
  return flambeau::result_type(a, b);
}

inline Tensor nonzero(const Tensor& x) { return x.nonzero(); }
inline std::vector<Tensor> nonzero_numpy(const Tensor& x) { return x.nonzero_numpy(); }
inline Tensor gelu(const Tensor& x, std::string_view approximate = "none") {
  return _nn_gelu(x, approximate);
}
inline Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2,
                    std::optional<int64_t> compute_mode = {}) {
  return _cdist(x1, x2, p, compute_mode);
}
inline std::tuple<Tensor, Tensor, Tensor> unique_dim(const Tensor& x, int64_t dim,
                                                     bool sorted = true,
                                                     bool return_inverse = false,
                                                     bool return_counts = false) {
  return _unique_dim(x, dim, sorted, return_inverse, return_counts);
}
inline std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& x,
                                                             bool return_inverse = false,
                                                             bool return_counts = false,
                                                             std::optional<int64_t> dim = {}) {
  return _unique_consecutive(x, return_inverse, return_counts, dim);
}
inline Tensor nll_loss2d(const Tensor& x, const Tensor& target, const OptionalTensor& weight = {},
                         int64_t reduction = Reduction::Mean, int64_t ignore_index = -100) {
  return nll_loss(x, target, weight, reduction, ignore_index);
}

namespace special {
inline Tensor expit(const Tensor& x) { return sigmoid(x); }
inline Tensor psi(const Tensor& x) { return digamma(x); }
inline Tensor gammaln(const Tensor& x) { return lgamma(x); }
inline Tensor gammainc(const Tensor& a, const Tensor& x) { return igamma(a, x); }
inline Tensor gammaincc(const Tensor& a, const Tensor& x) { return igammac(a, x); }
inline Tensor multigammaln(const Tensor& x, int64_t p) { return mvlgamma(x, p); }
}  // namespace special

// sort(x, /*stable=*/true, 0): an integer there is the dimension.
template <class Stable>
requires(std::same_as<Stable, bool> || std::same_as<Stable, std::optional<bool>>)
    std::tuple<Tensor, Tensor> sort(const Tensor& x, Stable stable, int64_t dim,
                                    bool descending = false) {
  return sort(x, dim, descending, std::optional<bool>(stable));
}
inline Tensor& gelu_(Tensor& x, std::string_view approximate = "none") {
  return x.copy_(gelu(x, approximate));
}

#define FLAMBEAU_PADS(dims)                                                   \
  inline Tensor reflection_pad##dims(const Tensor& x, IntArrayRef padding) {  \
    return pad(x, padding, "reflect");                                        \
  }                                                                           \
  inline Tensor replication_pad##dims(const Tensor& x, IntArrayRef padding) { \
    return pad(x, padding, "replicate");                                      \
  }
FLAMBEAU_PADS(1d)
FLAMBEAU_PADS(2d)
FLAMBEAU_PADS(3d)
#undef FLAMBEAU_PADS

namespace detail {
// To a size; `scales` are the factors that a caller knows more exactly.
inline Tensor upsample(const Tensor& x, IntArrayRef size,
                       std::initializer_list<std::optional<double>> scales, std::string_view mode,
                       bool align_corners = false) {
  std::vector<double> factors;
  for (const std::optional<double>& scale : scales) factors.push_back(scale.value_or(0));
  return _upsample(x, size, factors, mode, align_corners);
}
// To a size, or by factors.
inline Tensor upsample(const Tensor& x, const OptionalIntArrayRef& size,
                       const std::optional<ArrayRef<double>>& scales, std::string_view mode,
                       bool align_corners = false) {
  if (size) return _upsample(x, *size, Reals(), mode, align_corners);
  TORCH_CHECK(scales, "Must specify exactly one of output_size and scale_factors");
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < scales->size(); ++i) {
    const auto in = static_cast<double>(x.size(static_cast<int64_t>(i) + 2));
    sizes.push_back(static_cast<int64_t>(in * (*scales)[i]));
  }
  return _upsample(x, sizes, *scales, mode, align_corners);
}
}  // namespace detail

using Scale = std::optional<double>;
using Scales = std::optional<ArrayRef<double>>;
#define FLAMBEAU_NEAREST(name)                                                    \
  inline Tensor upsample_##name(const Tensor& x, const OptionalIntArrayRef& size, \
                                const Scales& scales) {                           \
    return detail::upsample(x, size, scales, "nearest");                          \
  }
#define FLAMBEAU_INTERPOLATED(name, mode)                                         \
  inline Tensor upsample_##name(const Tensor& x, const OptionalIntArrayRef& size, \
                                bool align_corners, const Scales& scales) {       \
    return detail::upsample(x, size, scales, mode, align_corners);                \
  }
FLAMBEAU_NEAREST(nearest1d)
FLAMBEAU_NEAREST(nearest2d)
FLAMBEAU_NEAREST(nearest3d)
FLAMBEAU_INTERPOLATED(linear1d, "linear")
FLAMBEAU_INTERPOLATED(bilinear2d, "bilinear")
FLAMBEAU_INTERPOLATED(bicubic2d, "bicubic")
FLAMBEAU_INTERPOLATED(trilinear3d, "trilinear")
#undef FLAMBEAU_NEAREST
#undef FLAMBEAU_INTERPOLATED
inline Tensor upsample_nearest1d(const Tensor& x, IntArrayRef size, Scale scale = {}) {
  return detail::upsample(x, size, {scale}, "nearest");
}
inline Tensor upsample_nearest2d(const Tensor& x, IntArrayRef size, Scale h = {}, Scale w = {}) {
  return detail::upsample(x, size, {h, w}, "nearest");
}
inline Tensor upsample_nearest3d(const Tensor& x, IntArrayRef size, Scale d = {}, Scale h = {},
                                 Scale w = {}) {
  return detail::upsample(x, size, {d, h, w}, "nearest");
}
inline Tensor upsample_linear1d(const Tensor& x, IntArrayRef size, bool align_corners,
                                Scale scale = {}) {
  return detail::upsample(x, size, {scale}, "linear", align_corners);
}
inline Tensor upsample_bilinear2d(const Tensor& x, IntArrayRef size, bool align_corners,
                                  Scale h = {}, Scale w = {}) {
  return detail::upsample(x, size, {h, w}, "bilinear", align_corners);
}
inline Tensor upsample_bicubic2d(const Tensor& x, IntArrayRef size, bool align_corners,
                                 Scale h = {}, Scale w = {}) {
  return detail::upsample(x, size, {h, w}, "bicubic", align_corners);
}
inline Tensor upsample_trilinear3d(const Tensor& x, IntArrayRef size, bool align_corners,
                                   Scale d = {}, Scale h = {}, Scale w = {}) {
  return detail::upsample(x, size, {d, h, w}, "trilinear", align_corners);
}

}  // namespace flambeau::torch
