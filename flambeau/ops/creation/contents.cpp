// The elements of a tensor as nested lists, laid out in lines: what Python shows of it.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/ops/op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

struct Style {
  int64_t indent;     // the column at which the outer bracket opens
  int64_t precision;  // digits after the point
  int64_t edge;       // elements shown at each end of a dimension that is cut
  int64_t line_width;
  std::optional<bool> scientific;  // where the numbers do not decide
  bool cuts = false;
};

// One notation and one width for numbers: whole (1.), fixed (1.5000) or scientific (1.5000e+00);
// whole if every number is, scientific if the range is too wide to compare at a glance.
class Notation {
 public:
  Notation(const double* values, int64_t count, int64_t step, const Style& style)
      : precision_(static_cast<int>(style.precision)) {
    double largest = 0, smallest = HUGE_VAL;
    for (int64_t i = 0; i < count; ++i) {
      const double value = values[i * step], size = std::fabs(value);
      if (value == 0 || !std::isfinite(value)) continue;
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
      whole_ &= value == std::trunc(value);
    }
    if (largest == 0) return;
    scientific_ = style.scientific.value_or(largest / smallest > 1000 || largest > 1e8 ||
                                            (!whole_ && smallest < 1e-4));
    for (int64_t i = 0; i < count; ++i) {
      const double value = values[i * step];
      if (value != 0 && std::isfinite(value)) width_ = std::max(width_, digits(value).size());
    }
  }
  [[nodiscard]] size_t width() const { return width_; }
  [[nodiscard]] std::string digits(double value) const {
    if (std::isnan(value)) return "nan";
    const bool point = !scientific_ && whole_ && std::isfinite(value);
    const char* format = scientific_ ? "%.*e" : "%.*f";
    const int precision = !scientific_ && whole_ ? 0 : precision_;
    const int size = std::snprintf(nullptr, 0, format, precision, value);
    std::string text(static_cast<size_t>(size), '\0');
    std::snprintf(text.data(), text.size() + 1, format, precision, value);
    return point ? text + '.' : text;
  }

 private:
  int precision_;
  bool whole_ = true, scientific_ = false;
  size_t width_ = 1;
};

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// Each element as text, and the width it takes with its comma and space.
struct Words {
  std::vector<std::string> words;
  size_t width = 0;

  Words(const Tensor& shown, const Style& style) {
    const int64_t count = shown.numel();
    words.reserve(static_cast<size_t>(count));
    if (is_complex(shown.dtype())) {
      const Tensor x = contiguous(to(shown, DType::complex128));
      const auto* parts = static_cast<const double*>(x.raw());
      const Notation real(parts, count, 2, style), imag(parts + 1, count, 2, style);
      for (int64_t i = 0; i < count; ++i) {
        const std::string part = imag.digits(parts[2 * i + 1]);
        words.push_back(padded(real.digits(parts[2 * i]), real.width()) +
                        (part[0] == '-' ? "" : "+") + part + "j");
      }
      width = real.width() + imag.width() + 3;
    } else if (is_floating(shown.dtype())) {
      const Tensor x = contiguous(to(shown, DType::float64));
      const auto* values = static_cast<const double*>(x.raw());
      const Notation notation(values, count, 1, style);
      for (int64_t i = 0; i < count; ++i)
        words.push_back(padded(notation.digits(values[i]), notation.width()));
      width = notation.width() + 2;
    } else {
      const bool is_bool = shown.dtype() == DType::bool_;
      const bool is_wide = shown.dtype() == DType::uint64;
      const Tensor x = contiguous(is_wide ? shown : to(shown, DType::int64));
      const auto* values = static_cast<const int64_t*>(x.raw());
      for (int64_t i = 0; i < count; ++i) {
        words.push_back(is_bool   ? (values[i] ? "True" : "False")
                        : is_wide ? std::to_string(static_cast<uint64_t>(values[i]))
                                  : std::to_string(values[i]));
        width = std::max(width, words.back().size());
      }
      for (std::string& word : words) word = padded(word, width);
      width += 2;
    }
  }
};

class Lines {
 public:
  Lines(const Words& words, IntSpan sizes, const Style& style)
      : next_(words.words.begin()), width_(words.width), sizes_(sizes), style_(style) {}

  std::string block(int64_t indent, size_t level) {
    const size_t below = sizes_.size() - level - 1;
    const bool cut = style_.cuts && sizes_[level] > 2 * style_.edge;
    std::vector<std::string> items;
    for (int64_t i = 0; i < (cut ? 2 * style_.edge : sizes_[level]); ++i)
      items.push_back(below == 0 ? *next_++ : block(indent + 1, level + 1));
    if (cut) items.insert(items.begin() + style_.edge, below == 0 ? " ..." : "...");
    const size_t width = static_cast<size_t>(std::max<int64_t>(0, style_.line_width - indent));
    const size_t per_line = below == 0 ? std::max<size_t>(1, width / width_) : 1;
    const std::string line = "," + std::string(std::max<size_t>(1, below), '\n') +
                             std::string(static_cast<size_t>(indent) + 1, ' ');
    std::string text = "[";
    for (size_t i = 0; i < items.size(); ++i)
      text += (i == 0 ? "" : i % per_line == 0 ? line : ", ") + items[i];
    return text + "]";
  }

 private:
  std::vector<std::string>::const_iterator next_;
  size_t width_;
  IntSpan sizes_;
  const Style& style_;
};

// The elements that a summary shows: the first and last of every dimension.
Tensor ends_of(Tensor x, int64_t edge) {
  for (int64_t dim = 0; dim < x.dim(); ++dim) {
    const int64_t size = x->sizes[dim];
    if (size <= 2 * edge) continue;
    x = cat({slice(x, dim, 0, edge, 1), slice(x, dim, size - edge, size, 1)}, dim);
  }
  return x;
}

std::string contents(const Tensor& input, int64_t indent, int64_t precision, double threshold,
                     int64_t edge_items, int64_t line_width, std::optional<bool> scientific) {
  const NoGrad off;
  Style style{indent, precision, edge_items, line_width, scientific};
  style.cuts = static_cast<double>(input.numel()) > threshold;
  const Tensor x = to(resolve(detach(input)), Device());
  const Tensor shown = style.cuts ? ends_of(x, edge_items) : x;
  const Words words(shown, style);
  return x.dim() == 0 ? words.words[0] : Lines(words, x.sizes(), style).block(indent, 0);
}
OP_FUNCTION(contents,
            "_contents(input, indent, precision, threshold, edge_items, line_width, "
            "scientific=None)",
            "The elements as nested lists, laid out in lines.", takes_pending)

}  // namespace
}  // namespace flambeau
