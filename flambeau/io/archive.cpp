#include "flambeau/io/archive.h"

#include <algorithm>
#include <charconv>
#include <istream>
#include <iterator>
#include <ostream>

#include "flambeau/autograd/assign.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/io/file.h"

namespace flambeau::torch {
namespace serialize {

using Tag = IValue::Tag;

// --- Writing -------------------------------------------------------------------------------------

void OutputArchive::write(const std::string& key, const flambeau::Tensor& tensor, bool) {
  entries_.emplace_back(key, IValue(tensor));
}

void OutputArchive::write(const std::string& key, const IValue& value) {
  entries_.emplace_back(key, value);
}

void OutputArchive::write(const std::string& key, OutputArchive& nested) {
  if (!nested.whole_.isNone()) return write(key, nested.whole_);
  versions_.emplace_back(key, nested.version_);
  for (const auto& [name, version] : nested.versions_) {
    versions_.emplace_back(key + "." + name, version);
  }
  for (const auto& [name, value] : nested.entries_) entries_.emplace_back(key + "." + name, value);
}

IValue OutputArchive::value() const {
  if (!whole_.isNone()) return whole_;
  IValue result = IValue::dict(Tag::OrderedDict), metadata = IValue::dict(Tag::OrderedDict);
  for (const auto& [name, value] : entries_) result.pairs().set(name, value);
  const auto note = [&](const std::string& name, int64_t version) {
    const IValue facts = IValue::dict();
    facts.pairs().set("version", version);
    metadata.pairs().set(name, facts);
  };
  note("", version_);
  for (const auto& [name, version] : versions_) note(name, version);
  result.pairs().attributes = IValue::dict();
  result.pairs().attributes.pairs().set("_metadata", metadata);
  return result;
}

void OutputArchive::save_to(const std::string& path) const { io::save_file(value(), path); }

void OutputArchive::save_to(std::ostream& stream) const {
  save_to([&](const void* data, size_t bytes) {
    stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    return stream ? bytes : 0;
  });
}

void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& function) const {
  io::FunctionSink sink(function);
  io::save(value(), sink);
}

// --- Reading -------------------------------------------------------------------------------------

namespace {

// The value of a name in a dict, an object of TorchScript's, or a list (whose names are numbers).
const IValue* member(const IValue& value, const std::string& name) {
  if (value.isGenericDict()) return value.pairs().find(name);
  if (value.isObject()) return member(value.as<ivalue::Object>().state, name);
  if (!value.isList() && !value.isTuple()) return nullptr;
  size_t place = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && place < value.items().size() ? &value.items()[place] : nullptr;
}

}  // namespace

const IValue* InputArchive::find(const std::string& name) const {
  return member(root_, prefix_ + name);
}

// Whether names begin so, or the file says that a module of the name has no tensors.
bool InputArchive::holds_module(const std::string& name) const {
  if (!root_.isGenericDict()) return false;
  const std::string full = prefix_ + name, start = full + ".";
  for (const auto& [key, value] : root_.pairs().pairs) {
    if (key.isString() && key.text().starts_with(start)) return true;
  }
  const IValue* metadata = member(root_.pairs().attributes, "_metadata");
  return metadata && metadata->isGenericDict() && metadata->pairs().find(full);
}

bool InputArchive::try_read(const std::string& key, flambeau::Tensor& tensor, bool) {
  const IValue* found = find(key);
  if (!found || !found->isTensor()) return false;
  const flambeau::Tensor& read = found->tensor();
  if (!tensor.defined()) {
    tensor = read;
    return true;
  }
  CHECK(tensor.dtype() == read.dtype(), RuntimeError,
        "Could not set tensor of type {} to a tensor of type {}", read.dtype(), tensor.dtype());
  const flambeau::Tensor values = detach_alias(read);
  assign_data(tensor, values);
  return true;
}

bool InputArchive::try_read(const std::string& key, IValue& value) {
  const IValue* found = find(key);
  if (found) value = *found;
  return found;
}

bool InputArchive::try_read(const std::string& key, InputArchive& archive) {
  const IValue* found = find(key);
  const bool whole = found && (found->isGenericDict() || found->isObject() || found->isList());
  if (!whole && !holds_module(key)) return false;
  archive.root_ = whole ? *found : root_;
  archive.prefix_ = whole ? "" : prefix_ + key + ".";
  return true;
}

void InputArchive::read(const std::string& key, flambeau::Tensor& tensor, bool is_buffer) {
  CHECK(try_read(key, tensor, is_buffer), RuntimeError, "No such serialized tensor '{}'",
        prefix_ + key);
}
void InputArchive::read(const std::string& key, IValue& value) {
  CHECK(try_read(key, value), RuntimeError, "No such serialized IValue '{}'", prefix_ + key);
}
void InputArchive::read(const std::string& key, InputArchive& archive) {
  CHECK(try_read(key, archive), RuntimeError, "No such serialized submodule: '{}'", prefix_ + key);
}

void InputArchive::load(io::Source& source, const std::optional<flambeau::Device>& device) {
  io::LoadOptions options;
  options.device = device;
  root_ = io::load(source, options);
  prefix_.clear();
}

void InputArchive::load_from(const std::string& path, std::optional<flambeau::Device> device) {
  load(*io::open_file(path), device);
}

void InputArchive::load_from(const char* data, size_t size,
                             std::optional<flambeau::Device> device) {
  load(*io::open_memory({data, size}), device);
}

void InputArchive::load_from(std::istream& stream, std::optional<flambeau::Device> device) {
  const std::string bytes(std::istreambuf_iterator<char>(stream), {});
  load_from(bytes.data(), bytes.size(), device);
}

void InputArchive::load_from(const std::function<size_t(uint64_t, void*, size_t)>& read,
                             const std::function<size_t()>& size,
                             std::optional<flambeau::Device> device) {
  std::string bytes(size(), '\0');
  CHECK(read(0, bytes.data(), bytes.size()) == bytes.size(), RuntimeError,
        "the reader did not give all bytes");
  load_from(bytes.data(), bytes.size(), device);
}

std::vector<std::string> InputArchive::keys() const {
  const IValue& names = root_.isObject() ? root_.as<ivalue::Object>().state : root_;
  std::vector<std::string> found;
  if (!names.isGenericDict()) return found;
  for (const auto& [key, value] : names.pairs().pairs) {
    if (!key.isString() || !key.text().starts_with(prefix_)) continue;
    const std::string rest = key.text().substr(prefix_.size());
    const std::string name = rest.substr(0, rest.find('.'));
    if (std::find(found.begin(), found.end(), name) == found.end()) found.push_back(name);
  }
  return found;
}

// --- Tensors and other values --------------------------------------------------------------------

OutputArchive& operator<<(OutputArchive& archive, const flambeau::Tensor& tensor) {
  archive.assign(IValue(tensor));
  return archive;
}

InputArchive& operator>>(InputArchive& archive, flambeau::Tensor& tensor) {
  if (archive.value().isTensor()) {
    tensor = archive.value().tensor();
  } else {
    archive.read("0", tensor);  // as libtorch saves one
  }
  return archive;
}

OutputArchive& operator<<(OutputArchive& archive, const IValue& value) {
  archive.assign(value);
  return archive;
}

InputArchive& operator>>(InputArchive& archive, IValue& value) {
  value = archive.value();
  return archive;
}

std::vector<flambeau::Tensor> tensors_of(InputArchive& archive) {
  std::vector<flambeau::Tensor> found;
  flambeau::Tensor tensor;
  while (archive.try_read(std::to_string(found.size()), tensor))
    found.push_back(std::exchange(tensor, {}));
  return found;
}

}  // namespace serialize

std::vector<char> pickle_save(const IValue& value) {
  io::StringSink sink;
  io::save(value, sink);
  return {sink.text.begin(), sink.text.end()};
}

IValue pickle_load(const std::vector<char>& data) {
  const auto source = io::open_memory({data.data(), data.size()});
  return io::load(*source);
}

}  // namespace flambeau::torch
