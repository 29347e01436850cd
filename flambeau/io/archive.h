// What C++ programs save and load: archives of tensors and other values by name, as libtorch has
// them, in files that Python's torch.load reads as a dict: torch::save(model, "model.pt") writes a
// state_dict. Archives in archives are dotted names. Files that libtorch's own torch::save wrote
// are read, too.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "flambeau/io/value.h"

namespace flambeau::io {
class Source;
}

namespace flambeau::torch {

using flambeau::Dict;
using flambeau::IValue;
using flambeau::List;

namespace serialize {

class OutputArchive {
 public:
  OutputArchive() = default;
  void write(const std::string& key, const flambeau::Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, const IValue& value);
  void write(const std::string& key, OutputArchive& nested);
  // The whole content, instead of values by name.
  void assign(IValue value) { whole_ = std::move(value); }
  // What Python's state_dict keeps of a module beside its tensors: the version of its format.
  void set_version(int64_t version) { version_ = version; }

  void save_to(const std::string& path) const;
  void save_to(std::ostream& stream) const;
  void save_to(const std::function<size_t(const void*, size_t)>& function) const;
  [[nodiscard]] IValue value() const;

  // Same as write, for code that reads and writes by one function.
  template <class... T>
  void operator()(T&&... arguments) {
    write(std::forward<T>(arguments)...);
  }

 private:
  std::vector<std::pair<std::string, IValue>> entries_;
  std::vector<std::pair<std::string, int64_t>> versions_;  // of nested archives
  int64_t version_ = 1;
  IValue whole_;
};

class InputArchive {
 public:
  InputArchive() = default;

  // Each raises what libtorch raises where there is no such thing; try_read() says so.
  void read(const std::string& key, flambeau::Tensor& tensor, bool is_buffer = false);
  void read(const std::string& key, IValue& value);
  void read(const std::string& key, InputArchive& archive);
  [[nodiscard]] bool try_read(const std::string& key, flambeau::Tensor& tensor,
                              bool is_buffer = false);
  [[nodiscard]] bool try_read(const std::string& key, IValue& value);
  [[nodiscard]] bool try_read(const std::string& key, InputArchive& archive);

  void load_from(const std::string& path, std::optional<flambeau::Device> device = {});
  void load_from(std::istream& stream, std::optional<flambeau::Device> device = {});
  void load_from(const char* data, size_t size, std::optional<flambeau::Device> device = {});
  void load_from(const std::function<size_t(uint64_t, void*, size_t)>& read,
                 const std::function<size_t()>& size, std::optional<flambeau::Device> device = {});

  [[nodiscard]] std::vector<std::string> keys() const;  // of this archive, not of nested ones
  [[nodiscard]] const IValue& value() const { return root_; }

  template <class... T>
  void operator()(T&&... arguments) {
    read(std::forward<T>(arguments)...);
  }

 private:
  [[nodiscard]] const IValue* find(const std::string& name) const;
  [[nodiscard]] bool holds_module(const std::string& name) const;
  void load(io::Source& source, const std::optional<flambeau::Device>& device);
  IValue root_;
  std::string prefix_;  // of the names of this archive, which is a part of the root
};

OutputArchive& operator<<(OutputArchive& archive, const flambeau::Tensor& tensor);
InputArchive& operator>>(InputArchive& archive, flambeau::Tensor& tensor);
OutputArchive& operator<<(OutputArchive& archive, const IValue& value);
InputArchive& operator>>(InputArchive& archive, IValue& value);

// The tensors of a file that holds a list of them.
std::vector<flambeau::Tensor> tensors_of(InputArchive& archive);

template <std::derived_from<flambeau::Tensor> T>
OutputArchive& operator<<(OutputArchive& archive, const std::vector<T>& tensors) {
  return archive << IValue(tensors);
}
template <std::derived_from<flambeau::Tensor> T>
InputArchive& operator>>(InputArchive& archive, std::vector<T>& tensors) {
  for (flambeau::Tensor& tensor : tensors_of(archive)) tensors.emplace_back(std::move(tensor));
  return archive;
}

}  // namespace serialize

// To a path, a stream, or a function that takes bytes: whatever `archive << value` knows.
template <class T, class... SaveTo>
void save(const T& value, SaveTo&&... to) {
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<SaveTo>(to)...);
}

template <class T, class... LoadFrom>
void load(T& value, LoadFrom&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<LoadFrom>(from)...);
  archive >> value;
}

// Any value as the bytes of a file, and back. An OrderedDict is read as well.
std::vector<char> pickle_save(const IValue& value);
IValue pickle_load(const std::vector<char>& data);

}  // namespace flambeau::torch
