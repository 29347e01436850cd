#include <algorithm>
#include <cstring>

#include "flambeau/io/formats.h"
#include "flambeau/ops/ops.h"

namespace flambeau::io {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr uint64_t largest_header = 10'000;
constexpr std::pair<std::string_view, DType> kinds[] = {
    {"f8", DType::float64},     {"f4", DType::float32},   {"f2", DType::float16},
    {"c16", DType::complex128}, {"c8", DType::complex64}, {"i8", DType::int64},
    {"i4", DType::int32},       {"i2", DType::int16},     {"i1", DType::int8},
    {"u8", DType::uint64},      {"u4", DType::uint32},    {"u2", DType::uint16},
    {"u1", DType::uint8},       {"b1", DType::bool_}};

}  // namespace

void save_npy(const Tensor& tensor, Sink& sink) {
  const auto* kind = std::find_if(std::begin(kinds), std::end(kinds),
                                  [&](const auto& row) { return row.second == tensor.dtype(); });
  CHECK(kind != std::end(kinds), TypeError,
        "save: NumPy has no dtype for {}; convert the tensor first", tensor.dtype());
  CHECK(!(tensor->pending & (Pending::valueless | Pending::conj | Pending::neg)), RuntimeError,
        "save: the values of the tensor are not in its memory; call resolve_conj() or to_dense()");
  std::string shape;
  for (const int64_t size : tensor.sizes())
    shape += std::to_string(size) + (shape.empty() && tensor.dim() == 1 ? "," : ", ");
  if (tensor.dim() > 1) shape.resize(shape.size() - 2);
  std::string text = std::string("{'descr': '") + (tensor.item_size() == 1 ? '|' : '<') +
                     std::string(kind->first) + "', 'fortran_order': False, 'shape': (" + shape +
                     "), }";
  // The data begin at a multiple of 64 bytes.
  text.append(-(magic.size() + 4 + text.size() + 1) % 64, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  sink.write(std::string(magic) + '\x01' + '\0' + static_cast<char>(length & 255) +
             static_cast<char>(length >> 8) + text);
  const Tensor host = to(contiguous(tensor), Device());
  if (host.numel()) sink.write(host.raw(), static_cast<size_t>(host.numel()) * host.item_size());
}

void save_npy(const Tensor& tensor, const std::string& path) {
  ReplacedFile file(path);
  save_npy(tensor, file);
  file.commit();
}

namespace {

struct NpyHeader {
  DType dtype = DType::uint8;
  bool swapped = false, fortran = false;
  Dims sizes;
  uint64_t data = 0;

  NpyHeader(Source& source, uint64_t start) {
    const auto refuse = [&](const std::string& reason) {
      fail<ValueError>("npy: {}. File {}, record (header)", printable(reason), source.name());
    };
    const uint64_t size = source.size() - start;
    if (size < 12) refuse("the file ends within its header");
    const std::string head = source.read(start, 12);
    if (!head.starts_with(magic)) refuse("the file does not begin as an .npy file does");
    const int version = head[6];
    if (version < 1 || version > 3 || head[7]) {
      refuse(format("version {}.{} of the format is unknown", version, int{head[7]}));
    }
    uint32_t length = 0;
    std::memcpy(&length, head.data() + 8, version == 1 ? 2 : 4);
    const uint64_t begin = version == 1 ? 10 : 12;
    if (length > largest_header) refuse(format("a header of {} bytes is too long", length));
    if (length > size - begin) refuse("the file ends within its header");
    IValue fields;
    try {
      fields = parse_literal(source.read(start + begin, length));
    } catch (const ValueError& error) {
      refuse(std::string("the header is no literal: ") + error.what());
    }
    const auto field = [&](const char* name) {
      const IValue* found = fields.isGenericDict() ? fields.pairs().find(name) : nullptr;
      if (!found || fields.pairs().pairs.size() != 3) {
        refuse("the header must have descr, fortran_order and shape, and no more");
      }
      return *found;
    };
    const IValue kind = field("descr"), order = field("fortran_order"), shape = field("shape");
    const std::string word = kind.isString() ? kind.text() : "";
    const auto* known = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& row) {
      return !word.empty() && row.first == std::string_view(word).substr(1);
    });
    if (known == std::end(kinds) || !std::strchr("<>|=", word[0])) {
      refuse("arrays of '" + word + "' cannot be tensors");
    }
    if (!order.isBool()) refuse("fortran_order must be a bool");
    bool fits = shape.is(IValue::Tag::Tuple) && shape.items().size() <= 64;
    for (size_t k = 0; fits && k < shape.items().size(); ++k) {
      const IValue& length = shape.items()[k];
      fits = length.isInt() && length.toInt() >= 0 && length.toInt() < int64_t{1} << 62;
      if (fits) sizes.push_back(length.toInt());
    }
    if (!fits) refuse("the shape is invalid");
    dtype = known->second;
    fortran = order.toBool();
    swapped = word[0] == '>' && item_size(dtype) > 1;
    data = start + begin + length;
    uint64_t bytes = item_size(dtype);
    for (const int64_t length : sizes) {
      fits = !__builtin_mul_overflow(bytes, static_cast<uint64_t>(length), &bytes) && fits;
    }
    if (!fits || bytes != source.size() - data) {
      refuse(format("an array of {} of {} has {} bytes, the file {}", sizes, word,
                    fits ? to_text(bytes) : "too many", source.size() - data));
    }
  }
};

}  // namespace

Tensor load_npy(Source& source, uint64_t start) {
  NpyHeader header(source, start);
  if (header.fortran) std::reverse(header.sizes.begin(), header.sizes.end());
  Tensor tensor = make_tensor(header.sizes, header.dtype, Device());
  const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.item_size();
  char* data = static_cast<char*>(tensor.raw());
  if (bytes) source.read(header.data, data, bytes);
  if (header.dtype == DType::bool_) {
    const bool all = std::all_of(data, data + bytes, [](char flag) { return (flag & ~1) == 0; });
    CHECK(all, ValueError, "npy: a bool is neither 0 nor 1. File {}, record (data)", source.name());
  }
  const size_t unit = tensor.item_size() / (tensor.is_complex() ? 2 : 1);
  for (size_t k = 0; header.swapped && k < bytes; k += unit)
    std::reverse(data + k, data + k + unit);
  if (!header.fortran) return tensor;
  Dims order;
  for (int64_t d = tensor.dim(); d-- > 0;) order.push_back(d);
  return permute(tensor, order);
}

}  // namespace flambeau::io
