#include "python/src/arguments.h"

#include <algorithm>

#include "flambeau/ops/ops.h"

namespace flambeau::python {

PyObject *name_out, *name_dtype, *name_layout, *name_device, *name_pin_memory, *name_requires_grad;

void intern_keywords() {
  name_out = PyUnicode_InternFromString("out");
  name_dtype = PyUnicode_InternFromString("dtype");
  name_layout = PyUnicode_InternFromString("layout");
  name_device = PyUnicode_InternFromString("device");
  name_pin_memory = PyUnicode_InternFromString("pin_memory");
  name_requires_grad = PyUnicode_InternFromString("requires_grad");
}

namespace {

// --- One argument --------------------------------------------------------------------------------

// The next list of tensors, empty; not taken until n_tensors counts it.
std::vector<Tensor>& next_list(Frame& frame) {
  if (!frame.tensors) frame.tensors = std::make_unique<std::vector<Tensor>[]>(Frame::max_lists);
  std::vector<Tensor>& list = frame.tensors[frame.n_tensors];
  list.clear();
  return list;
}

bool convert_tensors(PyObject* object, const Parameter& p, int at, Frame& frame, Value& value) {
  if (!PyTuple_Check(object) && !PyList_Check(object)) return false;
  if (frame.n_tensors == Frame::max_lists) return false;
  std::vector<Tensor>& list = next_list(frame);
  PyObject** items = PySequence_Fast_ITEMS(object);
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(object);
  list.reserve(n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (items[i] == Py_None && p.name == "indices") {  // stands for a whole dimension
      list.emplace_back();
      continue;
    }
    CHECK(is_tensor(items[i]), TypeError,
          "expected Tensor as element {} in argument {}, but got {}", i, at,
          Py_TYPE(items[i])->tp_name);
    list.push_back(tensor_of(items[i]));
    frame.largest = std::max(frame.largest, std::min(list.back().numel(), INT64_MAX / n) * n);
    frame.special |= list.back()->pending;
  }
  ++frame.n_tensors;
  value.tensors = &list;
  return true;
}

// One of a list of integers; one beyond 64 bits is of a wrong type.
bool list_int(PyObject* object, const Parameter& p, const Frame& frame, Py_ssize_t at,
              int64_t& value) {
  if (!PyLong_CheckExact(object)) return int_from(object, value);
  int overflow = 0;
  value = PyLong_AsLongLongAndOverflow(object, &overflow);
  CHECK(overflow == 0, TypeError,
        "{}(): argument '{}' failed to unpack the object at pos {} with error \"Overflow when "
        "unpacking long long\"",
        frame.op, p.name, at + 1);
  return true;
}

bool convert_ints(PyObject* object, const Parameter& p, Frame& frame, Value& value) {
  if (frame.n_ints == Frame::max_ints) return false;
  Dims& ints = frame.ints[frame.n_ints];
  ints.clear();
  int64_t single = 0;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
      if (!list_int(PySequence_Fast_GET_ITEM(object, i), p, frame, i, single)) return false;
      ints.push_back(single);
    }
  } else if ((p.single_int || p.takes_rest) && list_int(object, p, frame, 0, single)) {
    ints.push_back(single);
  } else {
    return false;
  }
  ++frame.n_ints;
  value.span = {ints.data(), ints.size()};
  return true;
}

bool convert_reals(PyObject* object, Frame& frame, Value& value) {
  if (!PyTuple_Check(object) && !PyList_Check(object)) return false;
  frame.reals.clear();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    double number = 0;
    if (!real_from(PySequence_Fast_GET_ITEM(object, i), number)) return false;
    frame.reals.push_back(number);
  }
  value.reals = &frame.reals;
  return true;
}

bool convert_dtype(PyObject* object, Value& value) {
  DType dtype;
  if (!dtype_from(object, dtype)) return false;
  value.code = static_cast<uint8_t>(dtype);
  return true;
}

bool convert_enum(PyObject* object, PyTypeObject* type, Value& value) {
  if (Py_TYPE(object) != type) return false;
  value.code = static_cast<uint8_t>(reinterpret_cast<EnumObject*>(object)->value);
  return true;
}

bool convert_string(PyObject* object, Value& value) {
  if (!PyUnicode_Check(object)) return false;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (!text) {
    PyErr_Clear();
    return false;
  }
  value.span = {text, static_cast<size_t>(size)};
  return true;
}

bool convert_operand(PyObject* object, Operand& slot, Frame& frame, Value& value) {
  value.operand = &slot;
  if (is_tensor(object)) {
    const Tensor& tensor = tensor_of(object);
    new (&slot) Operand(tensor);
    frame.largest = std::max(frame.largest, tensor.numel());
    frame.special |= tensor->pending;
    return true;
  }
  Scalar scalar;
  if (!scalar_from(object, scalar)) return false;
  new (&slot) Operand(scalar);
  return true;
}

// What ops call a tensor that a number may stand in for.
bool is_operand_name(std::string_view name) { return name == "self" || name == "input"; }

// False if the object is not of the parameter's kind; no Python exception is set then.
bool convert(PyObject* object, const Parameter& p, int at, Frame& frame) {
  Value& value = frame.values[at];
  if (object == Py_None) {
    value.given = false;
    return p.nullable;
  }
  value.given = true;
  switch (p.kind) {
    case Kind::tensor:
      if (!is_tensor(object)) return false;
      value.tensor = &tensor_of(object);
      frame.largest = std::max(frame.largest, value.tensor->numel());
      frame.special |= (*value.tensor)->pending;
      return true;
    case Kind::operand: return convert_operand(object, frame.slots[at].operand, frame, value);
    case Kind::scalar:
      if (at == 0 && is_tensor(object) && is_operand_name(p.name))
        return false;  // that is what the overload for tensors is for
      new (&frame.slots[at].scalar) Scalar();
      value.scalar = &frame.slots[at].scalar;
      return scalar_from(object, frame.slots[at].scalar);
    case Kind::integer: return int_from(object, value.integer);
    case Kind::real: return real_from(object, value.real);
    case Kind::boolean:
      if (!PyBool_Check(object)) return false;
      value.flag = object == Py_True;
      return true;
    case Kind::ints: return convert_ints(object, p, frame, value);
    case Kind::reals: return convert_reals(object, frame, value);
    case Kind::tensors: return convert_tensors(object, p, at, frame, value);
    case Kind::dtype: return convert_dtype(object, value);
    case Kind::device:
      new (&frame.slots[at].device) Device();
      value.device = &frame.slots[at].device;
      return !is_dtype(object) && device_from(object, frame.slots[at].device);
    case Kind::layout: return convert_enum(object, layout_type, value);
    case Kind::memory_format: return convert_enum(object, memory_format_type, value);
    case Kind::string: return convert_string(object, value);
    case Kind::generator:
      value.generator = generator_from(object);
      return value.generator != nullptr;
    case Kind::options: return false;
  }
  return false;
}

// One of the keywords that **options stands for. 1: taken, 0: not one of them, -1: of a wrong type.
int convert_option(PyObject* name, PyObject* object, Frame& frame) {
  Options& options = frame.options;
  Value value;
  if (name == name_dtype) {
    if (object == Py_None) return 1;
    if (!convert_dtype(object, value)) return -1;
    options.dtype = static_cast<DType>(value.code);
  } else if (name == name_device) {
    if (object == Py_None) return 1;
    Device device;
    if (!device_from(object, device)) return -1;
    options.device = device;
  } else if (name == name_layout) {
    if (object == Py_None) return 1;
    if (Py_TYPE(object) != layout_type) return -1;
    options.layout = static_cast<Layout>(reinterpret_cast<EnumObject*>(object)->value);
  } else if (name == name_pin_memory || name == name_requires_grad) {
    if (object == Py_None) return 1;
    if (!PyBool_Check(object)) return -1;
    (name == name_pin_memory ? options.pin_memory : options.requires_grad) = object == Py_True;
  } else {
    return 0;
  }
  return 1;
}

// --- One overload --------------------------------------------------------------------------------

// NumPy's words for some of ours.
bool is_alias(const std::string& parameter, PyObject* keyword) {
  const auto is = [&](const char* text) {
    return PyUnicode_CompareWithASCIIString(keyword, text) == 0;
  };
  if (parameter == "dim") return is("axis");
  if (parameter == "dim0") return is("axis0");
  if (parameter == "dim1") return is("axis1");
  if (parameter == "keepdim") return is("keepdims");
  if (parameter == "input") return is("x") || is("a") || is("x1") || is("self");
  if (parameter == "other") return is("x2");
  return false;
}

// The state of matching one call to one overload.
class Matcher {
 public:
  Matcher(const BoundOverload& bound, const Arguments& call, Frame& frame, Mismatch& miss)
      : parameters_(bound.overload->parameters),
        names_(bound.names),
        n_(static_cast<int>(bound.names.size())),
        call_(call),
        frame_(frame),
        miss_(miss) {
    frame.n_ints = frame.n_tensors = 0;
    frame.op = call.op;
  }

  bool positional() {
    Py_ssize_t taken = 0;
    for (int i = 0; i < n_ && taken < call_.nargs && !parameters_[i].keyword_only; ++i) {
      const Parameter& p = parameters_[i];
      PyObject* object = call_.args[taken];
      seen_[i] = true;
      const bool sequence = PyTuple_Check(object) || PyList_Check(object);
      if (p.takes_rest && (p.kind == Kind::tensors ? is_tensor(object) : !sequence)) {
        return rest(i, taken);
      }
      if (!convert(object, p, i, frame_)) return refuse(Fault::wrong_type, i, object);
      ++taken;
    }
    return taken == call_.nargs || refuse(Fault::too_many, -1, nullptr);
  }

  bool keyword(PyObject* name, PyObject* object) {
    int at = -1;
    for (int i = 0; i < n_ && at < 0; ++i) {
      if (names_[i] == name) at = i;
    }
    for (int i = 0; i < n_ && at < 0; ++i) {
      if (parameters_[i].kind == Kind::options) {
        const int verdict = convert_option(name, object, frame_);
        if (verdict > 0) return true;
        if (verdict < 0) {
          miss_ = {Fault::wrong_type, i, object, name};
          return false;
        }
      } else if (is_alias(parameters_[i].name, name) || PyUnicode_Compare(names_[i], name) == 0) {
        at = i;
      }
    }
    if (at < 0) return refuse(Fault::unknown, at, name);
    if (seen_[at]) return refuse(Fault::repeated, at, name);
    seen_[at] = true;
    return convert(object, parameters_[at], at, frame_) || refuse(Fault::wrong_type, at, object);
  }

  bool defaults() {
    for (int i = 0; i < n_; ++i) {
      const Parameter& p = parameters_[i];
      Value& value = frame_.values[i];
      if (p.kind == Kind::options) {
        value.given = true;
        value.options = &frame_.options;
      } else if (!seen_[i] && p.required) {
        if (!p.takes_rest || p.kind != Kind::tensors) return refuse(Fault::missing, i, nullptr);
        value.given = true;  // block_diag() of nothing
        value.tensors = &next_list(frame_);
        ++frame_.n_tensors;
      } else if (!seen_[i]) {
        value = p.fallback;
      }
    }
    return true;
  }

 private:
  // view(2, 3), einsum(equation, a, b): every further positional argument belongs to parameter i.
  bool rest(int i, Py_ssize_t taken) {
    Value& value = frame_.values[i];
    value.given = true;
    if (parameters_[i].kind == Kind::tensors) {
      std::vector<Tensor>& list = next_list(frame_);
      for (; taken < call_.nargs; ++taken) {
        if (!is_tensor(call_.args[taken])) return refuse(Fault::wrong_type, i, call_.args[taken]);
        list.push_back(tensor_of(call_.args[taken]));
        frame_.largest = std::max(frame_.largest, list.back().numel());
        frame_.special |= list.back()->pending;
      }
      ++frame_.n_tensors;
      value.tensors = &list;
      return true;
    }
    Dims& ints = frame_.ints[frame_.n_ints++];
    ints.clear();
    for (const Py_ssize_t first = taken; taken < call_.nargs; ++taken) {
      int64_t number = 0;
      if (!list_int(call_.args[taken], parameters_[i], frame_, taken - first, number))
        return refuse(Fault::wrong_type, i, call_.args[taken]);
      ints.push_back(number);
    }
    value.span = {ints.data(), ints.size()};
    return true;
  }

  bool refuse(Fault fault, int parameter, PyObject* object) {
    miss_ = {fault, parameter, object};
    return false;
  }

  const std::vector<Parameter>& parameters_;
  const std::vector<PyObject*>& names_;
  int n_;
  const Arguments& call_;
  Frame& frame_;
  Mismatch& miss_;
  bool seen_[max_arguments] = {};
};

// --- Errors, in the words that people search for -------------------------------------------------

std::string got(const Arguments& call, bool method) {
  std::string text = "(";
  for (Py_ssize_t i = method ? 1 : 0; i < call.nargs; ++i) {
    if (text.size() > 1) text += ", ";
    text += type_name(call.args[i]);
  }
  for (Py_ssize_t k = 0; k < call.keywords(); ++k) {
    if (text.size() > 1) text += ", ";
    text += text_of(PyTuple_GET_ITEM(call.kwnames, k)) + "=" + type_name(call.args[call.nargs + k]);
  }
  return text + ")";
}

[[noreturn]] void raise_single(const Family& family, const Overload& overload, const Mismatch& miss,
                               const Arguments& call) {
  const std::string& name = family.name;
  const auto* p = miss.parameter >= 0 ? &overload.parameters[miss.parameter] : nullptr;
  switch (miss.fault) {
    case Fault::too_many:
      fail<TypeError>("{}() takes {} positional argument{} but {} were given", name,
                      overload.positional - (family.is_method ? 1 : 0),
                      overload.positional - (family.is_method ? 1 : 0) == 1 ? "" : "s",
                      static_cast<int64_t>(call.nargs) - (family.is_method ? 1 : 0));
    case Fault::missing:
      fail<TypeError>("{}() missing 1 required positional arguments: \"{}\"", name, p->name);
    case Fault::unknown:
      fail<TypeError>("{}() got an unexpected keyword argument '{}'", name, text_of(miss.object));
    case Fault::repeated:
      fail<TypeError>("{}() got multiple values for argument '{}'", name, p->name);
    default: break;
  }
  if (miss.keyword) {
    const char* kind = miss.keyword == name_dtype    ? "torch.dtype"
                       : miss.keyword == name_device ? "torch.device"
                       : miss.keyword == name_layout ? "torch.layout"
                                                     : "bool";
    fail<TypeError>("{}(): argument '{}' must be {}, not {}", name, text_of(miss.keyword), kind,
                    type_name(miss.object));
  }
  const std::string expected = p->kind == Kind::tensors         ? "tuple of Tensors"
                               : p->kind == Kind::ints          ? "tuple of ints"
                               : p->kind == Kind::operand       ? "Tensor"
                               : p->kind == Kind::scalar        ? "Number"
                               : p->kind == Kind::integer       ? "int"
                               : p->kind == Kind::real          ? "float"
                               : p->kind == Kind::boolean       ? "bool"
                               : p->kind == Kind::string        ? "str"
                               : p->kind == Kind::dtype         ? "torch.dtype"
                               : p->kind == Kind::device        ? "torch.device"
                               : p->kind == Kind::tensor        ? "Tensor"
                               : p->kind == Kind::generator     ? "torch.Generator"
                               : p->kind == Kind::memory_format ? "torch.memory_format"
                                                                : "a valid option";
  const int position = miss.parameter + (family.is_method ? 0 : 1);
  if (p->keyword_only) {
    fail<TypeError>("{}(): argument '{}' must be {}, not {}", name, p->name, expected,
                    type_name(miss.object));
  }
  fail<TypeError>("{}(): argument '{}' (position {}) must be {}, not {}", name, p->name, position,
                  expected, type_name(miss.object));
}

}  // namespace

std::string type_name(PyObject* object) {
  if (is_tensor(object))
    return Py_TYPE(object) == tensor_type ? "Tensor" : Py_TYPE(object)->tp_name;
  std::string name = Py_TYPE(object)->tp_name;
  const size_t dot = name.rfind('.');
  if (name.starts_with("numpy.")) return name;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    if (PySequence_Fast_GET_SIZE(object) == 0) return PyTuple_Check(object) ? "tuple" : "list";
    return std::string(PyTuple_Check(object) ? "tuple" : "list") + " of (" +
           type_name(PySequence_Fast_GET_ITEM(object, 0)) + ", ...)";
  }
  return dot == std::string::npos || name.starts_with("torch.") ? name : name.substr(dot + 1);
}

bool match(const BoundOverload& overload, const Arguments& call, Frame& frame, Mismatch& miss,
           PyObject* skip) {
  Matcher matcher(overload, call, frame, miss);
  if (!matcher.positional()) return false;
  for (Py_ssize_t k = 0; k < call.keywords(); ++k) {
    PyObject* name = PyTuple_GET_ITEM(call.kwnames, k);
    if (name != skip && !matcher.keyword(name, call.args[call.nargs + k])) return false;
  }
  return matcher.defaults();
}

void raise_mismatch(const BoundFamily& bound, const Mismatch& first, const Arguments& call) {
  const Family& family = *bound.family;
  if (family.overloads.size() == 1) raise_single(family, family.overloads[0], first, call);
  std::string text = family.name + "() received an invalid combination of arguments - got " +
                     got(call, family.is_method) + ", but expected one of:";
  for (const Overload& overload : family.overloads) text += "\n * " + overload.text;
  throw TypeError(text);
}

}  // namespace flambeau::python
