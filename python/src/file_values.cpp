// Python objects out of the values of files, and values out of objects.
#include <new>

#include "flambeau/base/check.h"
#include "flambeau/io/pickle.h"
#include "python/src/files.h"

namespace flambeau::python {
namespace {

using Tag = IValue::Tag;

PyObject* ordered_dict_type() {
  static PyObject* type =
      check(
          PyObject_GetAttrString(check(PyImport_ImportModule("collections")).get(), "OrderedDict"))
          .release();
  return type;
}

PyTypeObject* parameters() {
  if (!parameter_type) check(PyImport_ImportModule("flambeau.nn.parameter"));
  return parameter_type;
}

Object text_object(const std::string& text) {
  return check(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass"));
}

void must(int status) {
  if (status < 0) throw PythonError();
}

}  // namespace

// --- Objects of values ---------------------------------------------------------------------------

Object FromValues::operator()(const IValue& value) {
  switch (value.tag()) {
    case Tag::None: return Object::borrow(Py_None);
    case Tag::Bool: return Object::borrow(value.toBool() ? Py_True : Py_False);
    case Tag::Int: return check(PyLong_FromLongLong(value.toInt()));
    case Tag::Double: return check(PyFloat_FromDouble(value.toDouble()));
    case Tag::ComplexDouble: {
      const std::complex<double> number = value.toComplexDouble();
      return check(PyComplex_FromDoubles(number.real(), number.imag()));
    }
    case Tag::BigInt: {
      const std::string& bytes = value.text();
      return check(_PyLong_FromByteArray(reinterpret_cast<const unsigned char*>(bytes.data()),
                                         bytes.size(), 1, 1));
    }
    case Tag::DType: return check(wrap_dtype(value.toScalarType()));
    case Tag::Layout: return check(wrap_layout(value.toLayout()));
    case Tag::MemoryFormat: return check(wrap_memory_format(value.toMemoryFormat()));
    case Tag::Device: return check(wrap_device(value.toDevice()));
    case Tag::String: return text_object(value.text());
    default: return shared(value);
  }
}

Object FromValues::shared(const IValue& value) {
  const auto found = made_.find(value.identity());
  if (found != made_.end()) return found->second;
  CHECK(++depth_ <= io::deepest, RuntimeError, "load: containers lie too deep in one another");
  Object result;
  switch (value.tag()) {
    case Tag::Bytes:
    case Tag::ByteArray: {
      const std::string& text = value.text();
      const auto size = static_cast<Py_ssize_t>(text.size());
      result = check(value.is(Tag::Bytes) ? PyBytes_FromStringAndSize(text.data(), size)
                                          : PyByteArray_FromStringAndSize(text.data(), size));
      break;
    }
    case Tag::GenericDict:
    case Tag::OrderedDict: result = dict(value); break;
    case Tag::Tensor: result = tensor(value); break;
    case Tag::Storage: {
      const auto& buffer = value.as<ivalue::Buffer>();
      const auto bytes = static_cast<int64_t>(buffer.storage->bytes());
      const Object memory(wrap(make_over(buffer.storage, bytes, 1, 0, DType::uint8)));
      result =
          check(PyObject_CallFunction(hooks_.storage, "Os", memory.get(), buffer.kind.c_str()));
      break;
    }
    case Tag::Global:
      result = check(PyObject_CallFunction(hooks_.find, "s", value.text().c_str()));
      break;
    case Tag::Object: result = object(value.as<ivalue::Object>(), value.identity()); break;
    default: result = items(value);
  }
  --depth_;
  made_.insert_or_assign(value.identity(), result);
  return result;
}

Object FromValues::items(const IValue& value) {
  const std::vector<IValue>& items = value.items();
  const auto count = static_cast<Py_ssize_t>(items.size());
  if (value.is(Tag::GenericList)) {
    Object list = check(PyList_New(0));
    made_.emplace(value.identity(), list);  // which may hold itself
    for (const IValue& item : items) must(PyList_Append(list.get(), (*this)(item).get()));
    return list;
  }
  if (value.is(Tag::Set) || value.is(Tag::FrozenSet)) {
    Object set = check(value.is(Tag::Set) ? PySet_New(nullptr) : PyFrozenSet_New(nullptr));
    for (const IValue& item : items) must(PySet_Add(set.get(), (*this)(item).get()));
    return set;
  }
  Object tuple = check(PyTuple_New(count));
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyTuple_SET_ITEM(tuple.get(), k, (*this)(items[static_cast<size_t>(k)]).release());
  }
  if (!value.is(Tag::Size)) return tuple;
  return check(PyObject_CallOneArg(reinterpret_cast<PyObject*>(size_type), tuple.get()));
}

void FromValues::add_pairs(PyObject* target, const std::vector<std::pair<IValue, IValue>>& pairs) {
  const bool plain = PyDict_CheckExact(target);
  for (const auto& [key, item] : pairs) {
    const Object first = (*this)(key), second = (*this)(item);
    must(plain ? PyDict_SetItem(target, first.get(), second.get())
               : PyObject_SetItem(target, first.get(), second.get()));
  }
}

Object FromValues::dict(const IValue& value) {
  Object made =
      check(value.is(Tag::GenericDict) ? PyDict_New() : PyObject_CallNoArgs(ordered_dict_type()));
  made_.emplace(value.identity(), made);
  add_pairs(made.get(), value.pairs().pairs);
  if (!value.pairs().attributes.isNone()) {
    const Object attributes = check(PyObject_GetAttrString(made.get(), "__dict__"));
    must(PyDict_Update(attributes.get(), (*this)(value.pairs().attributes).get()));
  }
  return made;
}

Object FromValues::tensor(const IValue& value) {
  const bool parameter = value.as<ivalue::TensorBox>().parameter;
  return check(parameter ? wrap_as(parameters(), value.tensor()) : wrap(value.tensor()));
}

Object FromValues::object(const ivalue::Object& value, const void* identity) {
  const Object arguments = (*this)(value.arguments);
  Object made = check(PyObject_CallFunction(hooks_.make, "sOO", value.name.c_str(), arguments.get(),
                                            value.called ? Py_True : Py_False));
  made_.emplace(identity, made);
  if (!value.appended.empty()) {
    const Object list = check(PyList_New(0));
    for (const IValue& item : value.appended) must(PyList_Append(list.get(), (*this)(item).get()));
    const bool set = PyAnySet_Check(made.get());
    check(PyObject_CallMethod(made.get(), set ? "update" : "extend", "O", list.get()));
  }
  add_pairs(made.get(), value.set);
  if (!value.state.isNone()) {
    const Object state = (*this)(value.state);
    check(PyObject_CallFunctionObjArgs(hooks_.build, made.get(), state.get(), nullptr));
  }
  return made;
}

// --- Values of objects ---------------------------------------------------------------------------

namespace {

struct NotPlain {};
constexpr int deepest_object = 200;

class ToValues {
 public:
  ~ToValues() {  // containers that hold themselves would never go
    for (const IValue& value : containers_) value.clear();
  }

  IValue operator()(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (object == Py_None) return {};
    if (type == &PyBool_Type) return object == Py_True;
    if (type == &PyLong_Type) return integer(object);
    if (type == &PyFloat_Type) return PyFloat_AS_DOUBLE(object);
    if (type == &PyUnicode_Type) return text(object);
    if (type == &PyComplex_Type) {
      return std::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
    }
    if (type == dtype_type) return dtype_of_object(object);
    if (type == layout_type)
      return static_cast<Layout>(reinterpret_cast<EnumObject*>(object)->value);
    if (type == device_type) {
      Device device;
      if (!device_from(object, device)) throw NotPlain();
      return device;
    }
    return shared(object);
  }

 private:
  static IValue integer(PyObject* object) {
    int overflow = 0;
    const long long small = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow) return small;
    const size_t bytes = _PyLong_NumBits(object) / 8 + 1;
    std::string text(bytes, '\0');
    auto* data = reinterpret_cast<unsigned char*>(text.data());
#if PY_VERSION_HEX >= 0x030d0000
    must(_PyLong_AsByteArray(reinterpret_cast<PyLongObject*>(object), data, bytes, 1, 1, 1));
#else
    must(_PyLong_AsByteArray(reinterpret_cast<PyLongObject*>(object), data, bytes, 1, 1));
#endif
    return IValue::of(Tag::BigInt, std::move(text));
  }

  static IValue text(PyObject* object) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(object, &size);
    if (data) return std::string(data, static_cast<size_t>(size));
    PyErr_Clear();
    const Object bytes = check(PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass"));
    return std::string(PyBytes_AS_STRING(bytes.get()),
                       static_cast<size_t>(PyBytes_GET_SIZE(bytes.get())));
  }

  IValue shared(PyObject* object) {
    const auto found = made_.find(object);
    if (found != made_.end()) return found->second;
    if (++depth_ > deepest_object) throw NotPlain();
    IValue result = container(object);
    --depth_;
    made_.insert_or_assign(object, result);
    return result;
  }

  IValue keep(PyObject* object, IValue value) {
    containers_.push_back(value);
    made_.emplace(object, value);
    return value;
  }

  IValue container(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (type == tensor_type || type == parameter_type) return tensor(object);
    if (type == &PyDict_Type) return dict(object, Tag::GenericDict);
    if (type == reinterpret_cast<PyTypeObject*>(ordered_dict_type())) {
      return dict(object, Tag::OrderedDict);
    }
    if (type == &PyList_Type) {
      IValue list = keep(object, IValue::of(Tag::GenericList, std::vector<IValue>()));
      // Nothing of this runs the program, so the list keeps its length.
      for (Py_ssize_t k = 0; k < PyList_GET_SIZE(object); ++k) {
        list.items().push_back((*this)(PyList_GET_ITEM(object, k)));
      }
      return list;
    }
    if (type == &PyTuple_Type || type == size_type) {
      std::vector<IValue> items;
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); ++k) {
        items.push_back((*this)(PyTuple_GET_ITEM(object, k)));
      }
      return IValue::of(type == size_type ? Tag::Size : Tag::Tuple, std::move(items));
    }
    if (type == &PySet_Type || type == &PyFrozenSet_Type) {
      std::vector<IValue> items;
      const Object all = check(PySequence_List(object));
      for (Py_ssize_t k = 0; k < PyList_GET_SIZE(all.get()); ++k) {
        items.push_back((*this)(PyList_GET_ITEM(all.get(), k)));
      }
      return IValue::of(type == &PySet_Type ? Tag::Set : Tag::FrozenSet, std::move(items));
    }
    if (type == &PyBytes_Type) {
      return IValue::of(Tag::Bytes, std::string(PyBytes_AS_STRING(object),
                                                static_cast<size_t>(PyBytes_GET_SIZE(object))));
    }
    if (type == &PyByteArray_Type) {
      return IValue::of(Tag::ByteArray,
                        std::string(PyByteArray_AS_STRING(object),
                                    static_cast<size_t>(PyByteArray_GET_SIZE(object))));
    }
    throw NotPlain();
  }

  IValue dict(PyObject* object, Tag tag) {
    IValue made = keep(object, IValue::dict(tag));
    if (tag == Tag::OrderedDict) {
      const Object attributes = check(PyObject_GetAttrString(object, "__dict__"));
      if (PyDict_Size(attributes.get())) made.pairs().attributes = (*this)(attributes.get());
      const Object items =
          check(PySequence_List(check(PyObject_CallMethod(object, "items", nullptr)).get()));
      for (Py_ssize_t k = 0; k < PyList_GET_SIZE(items.get()); ++k) {
        PyObject* pair = PyList_GET_ITEM(items.get(), k);
        made.pairs().pairs.emplace_back((*this)(PyTuple_GET_ITEM(pair, 0)),
                                        (*this)(PyTuple_GET_ITEM(pair, 1)));
      }
      return made;
    }
    Py_ssize_t place = 0;
    PyObject *key = nullptr, *item = nullptr;
    while (PyDict_Next(object, &place, &key, &item)) {
      IValue first = (*this)(key);
      made.pairs().pairs.emplace_back(std::move(first), (*this)(item));
    }
    return made;
  }

  static IValue tensor(PyObject* object) {
    const Tensor& tensor = tensor_of(object);
    PyObject* attributes = as_object(object)->dict;
    constexpr uint8_t plain = Pending::conj | Pending::neg | Pending::sparse | Pending::misaligned;
    const bool own = !tensor.defined() || (attributes && PyDict_Size(attributes)) ||
                     (tensor->pending & ~plain) || (tensor.is_sparse() && !tensor->parts) ||
                     tensor->python != object;
    if (own) throw NotPlain();
    IValue value(tensor);
    value.as<ivalue::TensorBox>().parameter = Py_TYPE(object) == parameter_type;
    return value;
  }

  std::unordered_map<PyObject*, IValue> made_;
  std::vector<IValue> containers_;
  int depth_ = 0;
};

}  // namespace

void with_plain_value(PyObject* object, const std::function<void(const IValue*)>& use) {
  ToValues values;
  IValue value;
  try {
    value = values(object);
  } catch (const NotPlain&) {
    return use(nullptr);
  }
  use(&value);
}

}  // namespace flambeau::python
