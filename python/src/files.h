// Values of files as Python objects, and back: see flambeau/io.
#pragma once

#include <functional>
#include <unordered_map>

#include "flambeau/io/value.h"
#include "python/src/binding.h"

namespace flambeau::python {

// What Python makes of what the core does not know. Each is called with what stands behind it.
struct FileHooks {
  PyObject* find;     // (name): a global as it is
  PyObject* make;     // (name, arguments, called): an object of a class
  PyObject* build;    // (object, state): gives it its state
  PyObject* storage;  // (bytes as a tensor, kind): a storage object
};

// Python objects of values, one for each that is shared.
class FromValues {
 public:
  explicit FromValues(const FileHooks& hooks) : hooks_(hooks) {}
  Object operator()(const IValue& value);

 private:
  Object shared(const IValue& value);
  Object items(const IValue& value);
  Object dict(const IValue& value);
  Object tensor(const IValue& value);
  Object object(const ivalue::Object& value, const void* identity);
  void add_pairs(PyObject* target, const std::vector<std::pair<IValue, IValue>>& pairs);

  FileHooks hooks_;
  std::unordered_map<const void*, Object> made_;
  int depth_ = 0;
};

// Calls `use` with the value of an object that is made of tensors, containers, numbers and text
// alone, and with null for any other, which its own class has to pickle. The value dies then.
void with_plain_value(PyObject* object, const std::function<void(const IValue*)>& use);

bool add_files(PyObject* module);

}  // namespace flambeau::python
