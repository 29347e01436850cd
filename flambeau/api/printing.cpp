#include "flambeau/api/printing.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>

#include "flambeau/api/indexing.h"
#include "flambeau/api/tensor_type.h"
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/io/value.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau::torch {
namespace {

// All digits that tell the number from others, with an exponent only where there are many zeros.
std::string shortest(double value) {
  std::array<char, 400> buffer;
  const double size = std::fabs(value);
  const auto format = size == 0 || (size >= 1e-4 && size < 1e16) ? std::chars_format::fixed
                                                                 : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  return {buffer.data(), end};
}

// One notation and one width for all numbers of a matrix.
struct Notation {
  double scale = 1;
  int width = 0;
  const char* format = "%*.6g";

  Notation(const double* values, int64_t count) {
    if (count == 0) return;
    bool whole = true, any = false;
    double smallest = 1, largest = 1;
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(values[i])) continue;
      const double size = std::fabs(values[i]);
      whole &= values[i] == std::ceil(values[i]);
      smallest = any ? std::min(smallest, size) : size;
      largest = any ? std::max(largest, size) : size;
      any = true;
    }
    const auto digits = [](double size) {
      return size != 0 ? static_cast<int>(std::floor(std::log10(size))) + 1 : 1;
    };
    const int least = digits(smallest), most = digits(largest);
    if (whole) {
      if (most > 9) {
        width = 11, format = "%*.4e";
      } else {
        width = most + 1;
      }
    } else if (most - least > 4) {
      width = std::abs(most) > 99 || std::abs(least) > 99 ? 12 : 11;
      format = "%*.4e";
    } else if (most > 5 || most < 0) {
      width = 7, scale = std::pow(10, most - 1), format = "%*.4f";
    } else {
      width = most == 0 ? 7 : most + 6, format = "%*.4f";
    }
  }
  void write(std::string& text, double value) const {
    std::array<char, 64> buffer;
    std::snprintf(buffer.data(), buffer.size(), format, width, value / scale);
    text += buffer.data();
  }
  void write_scale(std::string& text) const { text += shortest(scale) + " *\n"; }
};

void write_matrix(std::string& text, const double* values, int64_t rows, int64_t columns,
                  int64_t line_size, int64_t indent) {
  const Notation notation(values, rows * columns);
  const std::string margin(static_cast<size_t>(indent), ' ');
  const int64_t per_line = (line_size - indent) / (notation.width + 1);
  for (int64_t first = 0; first < columns; first += per_line) {
    const int64_t end = std::min(first + per_line, columns);
    if (per_line < columns) {
      if (first != 0) text += '\n';
      text += "Columns " + std::to_string(first + 1) + " to " + std::to_string(end) + margin;
    }
    if (notation.scale != 1) {
      notation.write_scale(text);
      text += margin;
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = first; column < end; ++column) {
        notation.write(text, values[row * columns + column]);
        text += column == end - 1 ? '\n' : ' ';
      }
      if (row != rows - 1) text += notation.scale != 1 ? margin + " " : margin;
    }
  }
}

// Matrix by matrix, under the indices of all dimensions but the last two, the first the fastest.
void write_matrices(std::string& text, const double* values, IntSpan sizes, int64_t line_size) {
  const size_t outer = sizes.size() - 2;
  const int64_t rows = sizes[outer], columns = sizes[outer + 1];
  std::vector<int64_t> at(outer, 0);
  for (bool first = true;; first = false) {
    text += first ? "(" : "\n(";
    int64_t matrix = 0;
    for (size_t dim = 0; dim < outer; ++dim) {
      text += std::to_string(at[dim] + 1) + ",";
      matrix = matrix * sizes[dim] + at[dim];
    }
    text += ".,.) = \n";
    write_matrix(text, values + matrix * rows * columns, rows, columns, line_size, 1);
    size_t dim = 0;
    while (dim < outer && ++at[dim] == sizes[dim]) at[dim++] = 0;
    if (dim == outer) return;
  }
}

void write_values(std::string& text, const flambeau::Tensor& values, int64_t line_size) {
  const auto* data = static_cast<const double*>(values.raw());
  if (values.dim() == 0) {
    text += shortest(*data) + '\n';
  } else if (values.numel() == 0) {
    return;
  } else if (values.dim() == 1) {
    const Notation notation(data, values.numel());
    if (notation.scale != 1) notation.write_scale(text);
    for (int64_t i = 0; i < values.numel(); ++i) {
      notation.write(text, data[i]);
      text += '\n';
    }
  } else if (values.dim() == 2) {
    write_matrix(text, data, values.size(0), values.size(1), line_size, 0);
  } else {
    write_matrices(text, data, values.sizes(), line_size);
  }
}

}  // namespace

std::ostream& print(std::ostream& out, const flambeau::Tensor& tensor, int64_t line_size) {
  if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
  const NoGrad off;
  std::string text;
  const TensorBase base(tensor);
  if (!tensor.is_sparse() && !tensor.device().is_meta()) {
    write_values(
        text,
        contiguous(flambeau::to(flambeau::to(resolve(tensor), flambeau::Device()), DType::float64)),
        line_size);
  }
  text += "[ " + base.toString() + "{";
  for (size_t i = 0; i < base.sizes().size(); ++i)
    text += (i ? "," : "") + std::to_string(base.sizes()[i]);
  return out << text << "} ]";
}

void print(const flambeau::Tensor& tensor, int64_t line_size) {
  print(std::cout, tensor, line_size);
}

void TensorBase::print() const {
  if (defined()) {
    std::cerr << '[' << toString() << ' ' << sizes() << ']' << std::endl;
  } else {
    std::cerr << "[UndefinedTensor]" << std::endl;
  }
}

const char* toString(Backend backend) {
  constexpr std::array names = {"CPU", "CUDA", "Meta", "SparseCPU", "SparseCUDA", "Undefined"};
  return names[static_cast<size_t>(backend)];
}
std::string DeprecatedTypeProperties::toString() const {
  if (backend_ == Backend::Undefined) return "UndefinedType";
  return std::string(torch::toString(backend_)) + torch::toString(dtype_) + "Type";
}
std::ostream& operator<<(std::ostream& out, const DeprecatedTypeProperties& type) {
  return out << type.toString();
}
const DeprecatedTypeProperties& TensorBase::type() const {
  static const auto all = [] {
    std::vector<DeprecatedTypeProperties> types;
    for (int backend = 0; backend <= static_cast<int>(Backend::Undefined); ++backend) {
      for (int dtype = 0; dtype <= dtype_count; ++dtype) {
        types.emplace_back(static_cast<Backend>(backend), dtype == dtype_count
                                                              ? ScalarType::Undefined
                                                              : static_cast<ScalarType>(dtype));
      }
    }
    return types;
  }();
  constexpr int row = dtype_count + 1;
  if (!defined()) return all.back();
  const Backend backend = is_meta() ? Backend::Meta
                          : !flambeau::Tensor::is_sparse()
                              ? (is_cuda() ? Backend::CUDA : Backend::CPU)
                              : (is_cuda() ? Backend::SparseCUDA : Backend::SparseCPU);
  return all[static_cast<size_t>(static_cast<int>(backend) * row +
                                 static_cast<int>(scalar_type()))];
}
std::string TensorBase::toString() const { return type().toString(); }

namespace indexing {
std::ostream& operator<<(std::ostream& out, const Slice& slice) {
  return out << slice.start() << ":" << slice.stop() << ":" << slice.step();
}
}  // namespace indexing

std::ostream& operator<<(std::ostream& out, const TensorIndex& index) {
  using Type = indexing::TensorIndexType;
  switch (index.type()) {
    case Type::None: return out << "None";
    case Type::Ellipsis: return out << "...";
    case Type::SymInt: return out << index.integer();
    case Type::Boolean: return out << std::boolalpha << index.boolean();
    case Type::Slice: return indexing::operator<<(out, index.slice());
    case Type::Tensor: return flambeau::operator<<(out, index.tensor());
  }
  return out;
}
std::ostream& operator<<(std::ostream& out, const std::vector<TensorIndex>& indices) {
  out << "(";
  for (size_t i = 0; i < indices.size(); ++i) out << (i ? ", " : "") << indices[i];
  return out << ")";
}

}  // namespace flambeau::torch

namespace flambeau {
namespace {

// A float tells that it is one.
void print_real(std::ostream& out, double value) {
  if (std::fabs(value) < 1e10 && value == std::trunc(value)) {
    out << static_cast<int64_t>(value) << ".";
  } else {
    const std::streamsize before = out.precision(std::numeric_limits<double>::max_digits10);
    out << value;
    out.precision(before);
  }
}
void print_items(std::ostream& out, const std::vector<IValue>& items) {
  const char* between = "";
  for (const IValue& item : items) {
    out << between << item;
    between = ", ";
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return torch::print(out, tensor, 80);
}

std::ostream& operator<<(std::ostream& out, const IValue& value) {
  using Tag = IValue::Tag;
  switch (value.tag()) {
    case Tag::None: return out << "None";
    case Tag::Bool: return out << (value.toBool() ? "True" : "False");
    case Tag::Int: return out << value.toInt();
    case Tag::Double: return print_real(out, value.toDouble()), out;
    case Tag::ComplexDouble: {
      const std::complex<double> number = value.toComplexDouble();
      print_real(out, number.real());
      out << (number.imag() < 0 ? "" : "+");
      return print_real(out, number.imag()), out << "j";
    }
    case Tag::String: return out << value.toStringRef();
    case Tag::Tensor: return out << value.tensor();
    case Tag::Device: return out << value.toDevice();
    case Tag::GenericList: return out << "[", print_items(out, value.items()), out << "]";
    case Tag::Tuple:
    case Tag::Size:
      out << "(";
      print_items(out, value.items());
      return out << (value.items().size() == 1 ? ",)" : ")");
    case Tag::GenericDict:
    case Tag::OrderedDict: {
      const char* between = "";
      out << "{";
      for (const auto& [key, item] : value.pairs().pairs) {
        out << between << key << ": " << item;
        between = ", ";
      }
      return out << "}";
    }
    default: return out << "<" << value.tagKind() << ">";
  }
}

}  // namespace flambeau
