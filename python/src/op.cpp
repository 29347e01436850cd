// Ops as Python objects: one type that is called with vectorcall, matches the arguments to an
// overload, and calls the C++ function behind it. Signatures, defaults and errors all come from the
// registry.
#include <cstddef>
#include <cstring>
#include <memory>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "signature.h"

namespace flambeau::python {
namespace {

constexpr int most_arguments = 20;

struct OpObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  const Family* family;
};

PyTypeObject* op_type = nullptr;      // torch.add
PyTypeObject* method_type = nullptr;  // Tensor.add

// Where converted arguments live during a call.
struct Frame {
  Value values[most_arguments];
  union Room {
    Scalar scalar;
    Operand operand;
    Device device;
    Room() {}
  } rooms[most_arguments];
  Dims ints[4];
  int n_ints = 0;
  // Few ops take lists of tensors; the first one makes the room.
  static constexpr int most_lists = 6;
  std::unique_ptr<std::vector<Tensor>[]> tensors;
  int n_tensors = 0;
  std::vector<double> reals;
  Options options;
  int64_t largest = 0;  // elements of the largest tensor, to decide about the GIL
};

PyObject *name_out, *name_dtype, *name_layout, *name_device, *name_pin_memory, *name_requires_grad;

// --- One argument ---------------------------------------------------------------------------------

// The next list of tensors, empty; not taken until n_tensors counts it.
std::vector<Tensor>& next_list(Frame& frame) {
  if (!frame.tensors) frame.tensors = std::make_unique<std::vector<Tensor>[]>(Frame::most_lists);
  std::vector<Tensor>& list = frame.tensors[frame.n_tensors];
  list.clear();
  return list;
}

bool convert_tensors(PyObject* object, const Parameter& p, int at, Frame& frame, Value& value) {
  if (!PyTuple_Check(object) && !PyList_Check(object)) return false;
  if (frame.n_tensors == Frame::most_lists) return false;
  std::vector<Tensor>& list = next_list(frame);
  PyObject** items = PySequence_Fast_ITEMS(object);
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(object);
  list.reserve(n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (items[i] == Py_None && p.text == "indices") {  // stands for a whole dimension
      list.emplace_back();
      continue;
    }
    CHECK(is_tensor(items[i]), TypeError, "expected Tensor as element {} in argument {}, but got {}", i,
          at, Py_TYPE(items[i])->tp_name);
    list.push_back(tensor_of(items[i]));
    frame.largest = std::max(frame.largest, list.back().numel() * n);
  }
  ++frame.n_tensors;
  value.tensors = &list;
  return true;
}

bool convert_ints(PyObject* object, const Parameter& p, Frame& frame, Value& value) {
  if (frame.n_ints == 4) return false;
  Dims& ints = frame.ints[frame.n_ints];
  ints.clear();
  int64_t single = 0;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    if (!ints_from(object, ints)) return false;
  } else if ((p.single_int || p.takes_rest) && int_from(object, single)) {
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
  if (is_dtype(object)) {
    value.code = static_cast<uint8_t>(dtype_of_object(object));
    return true;
  }
  // Python's own types stand for dtypes, as in x.to(float).
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    value.code = static_cast<uint8_t>(DType::float64);
  } else if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    value.code = static_cast<uint8_t>(DType::int64);
  } else if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) {
    value.code = static_cast<uint8_t>(DType::bool_);
  } else if (object == reinterpret_cast<PyObject*>(&PyComplex_Type)) {
    value.code = static_cast<uint8_t>(DType::complex128);
  } else {
    return false;
  }
  return true;
}

struct EnumObject {
  PyObject_HEAD
  int value;
};

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
      return true;
    case Kind::operand: {
      Operand* room = &frame.rooms[at].operand;
      value.operand = room;
      if (is_tensor(object)) {
        const Tensor& tensor = tensor_of(object);
        new (room) Operand(tensor);
        frame.largest = std::max(frame.largest, tensor.numel());
        return true;
      }
      Scalar scalar;
      if (!scalar_from(object, scalar)) return false;
      new (room) Operand(scalar);
      return true;
    }
    case Kind::scalar:
      if (at == 0 && is_tensor(object)) return false;  // that is what the overload for tensors is for
      new (&frame.rooms[at].scalar) Scalar();
      value.scalar = &frame.rooms[at].scalar;
      return scalar_from(object, frame.rooms[at].scalar);
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
      new (&frame.rooms[at].device) Device();
      value.device = &frame.rooms[at].device;
      return !is_dtype(object) && device_from(object, frame.rooms[at].device);
    case Kind::layout:
      if (Py_TYPE(object) != layout_type) return false;
      value.code = static_cast<uint8_t>(reinterpret_cast<EnumObject*>(object)->value);
      return true;
    case Kind::memory_format:
      if (Py_TYPE(object) != memory_format_type) return false;
      value.code = static_cast<uint8_t>(reinterpret_cast<EnumObject*>(object)->value);
      return true;
    case Kind::string: {
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

// --- One overload ---------------------------------------------------------------------------------

// NumPy's words for some of ours.
bool is_alias(const std::string& parameter, PyObject* keyword) {
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(keyword, text) == 0; };
  if (parameter == "dim") return is("axis");
  if (parameter == "dim0") return is("axis0");
  if (parameter == "dim1") return is("axis1");
  if (parameter == "keepdim") return is("keepdims");
  if (parameter == "input") return is("x") || is("a") || is("x1") || is("self");
  if (parameter == "other") return is("x2");
  return false;
}

enum class Fault : uint8_t { none, too_many, missing, unknown, repeated, wrong_type };

struct Mismatch {
  Fault fault = Fault::none;
  int parameter = -1;
  PyObject* object = nullptr;   // the argument or keyword at fault, borrowed
  PyObject* keyword = nullptr;  // of an option
};

struct Call {
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;
  [[nodiscard]] Py_ssize_t keywords() const { return kwnames ? PyTuple_GET_SIZE(kwnames) : 0; }
};

bool match(const Overload& overload, const Call& call, Frame& frame, Mismatch& miss, PyObject* skip) {
  const auto& parameters = overload.parameters;
  const int n = static_cast<int>(parameters.size());
  frame.n_ints = frame.n_tensors = 0;
  bool seen[most_arguments] = {};
  Py_ssize_t taken = 0;
  for (int i = 0; i < n && taken < call.nargs && !parameters[i].keyword_only; ++i) {
    const Parameter& p = parameters[i];
    PyObject* object = call.args[taken];
    seen[i] = true;
    if (p.takes_rest && p.kind == Kind::tensors && is_tensor(object)) {
      // einsum(equation, a, b): every further positional argument belongs to it.
      std::vector<Tensor>& list = next_list(frame);
      for (; taken < call.nargs; ++taken) {
        if (!is_tensor(call.args[taken])) {
          miss = {Fault::wrong_type, i, call.args[taken]};
          return false;
        }
        list.push_back(tensor_of(call.args[taken]));
        frame.largest = std::max(frame.largest, list.back().numel());
      }
      ++frame.n_tensors;
      frame.values[i].given = true;
      frame.values[i].tensors = &list;
      break;
    }
    if (p.takes_rest && p.kind == Kind::ints && !PyTuple_Check(object) && !PyList_Check(object)) {
      // view(2, 3): every further positional argument belongs to it.
      Dims& ints = frame.ints[frame.n_ints];
      ints.clear();
      for (; taken < call.nargs; ++taken) {
        int64_t value = 0;
        if (!int_from(call.args[taken], value)) {
          miss = {Fault::wrong_type, i, call.args[taken]};
          return false;
        }
        ints.push_back(value);
      }
      ++frame.n_ints;
      frame.values[i].given = true;
      frame.values[i].span = {ints.data(), ints.size()};
      break;
    }
    if (!convert(object, p, i, frame)) {
      miss = {Fault::wrong_type, i, object};
      return false;
    }
    ++taken;
  }
  if (taken < call.nargs) {
    miss = {Fault::too_many, -1, nullptr};
    return false;
  }
  for (Py_ssize_t k = 0; k < call.keywords(); ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(call.kwnames, k);
    PyObject* object = call.args[call.nargs + k];
    if (keyword == skip) continue;
    int at = -1;
    bool is_option = false;
    for (int i = 0; i < n && at < 0; ++i) {
      if (parameters[i].name == keyword) at = i;
    }
    for (int i = 0; i < n && at < 0; ++i) {
      if (parameters[i].kind == Kind::options) {
        const int verdict = convert_option(keyword, object, frame);
        if (verdict < 0) {
          miss = {Fault::wrong_type, i, object, keyword};
          return false;
        }
        is_option = verdict > 0;
      } else if (is_alias(parameters[i].text, keyword) || PyUnicode_Compare(parameters[i].name, keyword) == 0) {
        at = i;
      }
    }
    if (is_option && at < 0) continue;
    if (at < 0 || seen[at]) {
      miss = {at < 0 ? Fault::unknown : Fault::repeated, at, keyword};
      return false;
    }
    seen[at] = true;
    if (!convert(object, parameters[at], at, frame)) {
      miss = {Fault::wrong_type, at, object};
      return false;
    }
  }
  for (int i = 0; i < n; ++i) {
    const Parameter& p = parameters[i];
    if (p.kind == Kind::options) {
      frame.values[i].given = true;
      frame.values[i].options = &frame.options;
    } else if (!seen[i]) {
      if (p.required) {
        if (p.takes_rest && p.kind == Kind::tensors) {  // block_diag() of nothing
          frame.values[i].given = true;
          frame.values[i].tensors = &next_list(frame);
          ++frame.n_tensors;
          continue;
        }
        miss = {Fault::missing, i, nullptr};
        return false;
      }
      frame.values[i] = p.fallback;
    }
  }
  return true;
}

// --- Errors, in the words that people search for ---------------------------------------------------

std::string type_name(PyObject* object) {
  if (is_tensor(object)) return Py_TYPE(object) == tensor_type ? "Tensor" : Py_TYPE(object)->tp_name;
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

std::string got(const Call& call, bool method) {
  std::string text = "(";
  for (Py_ssize_t i = method ? 1 : 0; i < call.nargs; ++i) {
    if (text.size() > 1) text += ", ";
    text += type_name(call.args[i]);
  }
  for (Py_ssize_t k = 0; k < call.keywords(); ++k) {
    if (text.size() > 1) text += ", ";
    text += std::string(PyUnicode_AsUTF8(PyTuple_GET_ITEM(call.kwnames, k))) + "=" +
            type_name(call.args[call.nargs + k]);
  }
  return text + ")";
}

[[noreturn]] void raise_single(const Family& family, const Overload& overload, const Mismatch& miss,
                               const Call& call) {
  const std::string& name = family.name;
  const auto* p = miss.parameter >= 0 ? &overload.parameters[miss.parameter] : nullptr;
  switch (miss.fault) {
    case Fault::too_many:
      fail<TypeError>("{}() takes {} positional argument{} but {} were given", name,
                      overload.positional - (family.is_method ? 1 : 0),
                      overload.positional - (family.is_method ? 1 : 0) == 1 ? "" : "s",
                      static_cast<int64_t>(call.nargs) - (family.is_method ? 1 : 0));
    case Fault::missing:
      fail<TypeError>("{}() missing 1 required positional arguments: \"{}\"", name, p->text);
    case Fault::unknown:
      fail<TypeError>("{}() got an unexpected keyword argument '{}'", name, PyUnicode_AsUTF8(miss.object));
    case Fault::repeated:
      fail<TypeError>("{}() got multiple values for argument '{}'", name, p->text);
    default: break;
  }
  if (miss.keyword) {
    const char* keyword = PyUnicode_AsUTF8(miss.keyword);
    const char* kind = miss.keyword == name_dtype    ? "torch.dtype"
                       : miss.keyword == name_device ? "torch.device"
                       : miss.keyword == name_layout ? "torch.layout"
                                                     : "bool";
    fail<TypeError>("{}(): argument '{}' must be {}, not {}", name, keyword, kind, type_name(miss.object));
  }
  const std::string expected = p->kind == Kind::tensors ? "tuple of Tensors"
                               : p->kind == Kind::ints  ? "tuple of ints"
                               : p->kind == Kind::operand ? "Tensor"
                               : p->kind == Kind::scalar  ? "Number"
                               : p->kind == Kind::integer ? "int"
                               : p->kind == Kind::real    ? "float"
                               : p->kind == Kind::boolean ? "bool"
                               : p->kind == Kind::string  ? "str"
                               : p->kind == Kind::dtype   ? "torch.dtype"
                               : p->kind == Kind::device  ? "torch.device"
                               : p->kind == Kind::tensor  ? "Tensor"
                               : p->kind == Kind::generator ? "torch.Generator"
                               : p->kind == Kind::memory_format ? "torch.memory_format"
                                                            : "a valid option";
  const int position = miss.parameter + (family.is_method ? 0 : 1);
  if (p->keyword_only) {
    fail<TypeError>("{}(): argument '{}' must be {}, not {}", name, p->text, expected, type_name(miss.object));
  }
  fail<TypeError>("{}(): argument '{}' (position {}) must be {}, not {}", name, p->text, position, expected,
                  type_name(miss.object));
}

[[noreturn]] void raise_mismatch(const Family& family, const Mismatch& first, const Call& call) {
  if (family.overloads.size() == 1) raise_single(family, family.overloads[0], first, call);
  std::string text = family.name + "() received an invalid combination of arguments - got " +
                     got(call, family.is_method) + ", but expected one of:";
  for (const Overload& overload : family.overloads) text += "\n * " + overload.text;
  throw TypeError(text);
}

// --- Results --------------------------------------------------------------------------------------

PyObject* wrap_tuple(std::vector<Tensor>& tensors, PyTypeObject* named) {
  if (named) {
    Object tuple = check(PyStructSequence_New(named));
    for (size_t i = 0; i < tensors.size(); ++i) {
      PyStructSequence_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), check(wrap(std::move(tensors[i]))).release());
    }
    return tuple.release();
  }
  Object tuple = check(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), check(wrap(std::move(tensors[i]))).release());
  }
  return tuple.release();
}

PyObject* wrap_result(Result& result, const Overload& overload) {
  switch (result.form) {
    case Result::Form::none: Py_RETURN_NONE;
    case Result::Form::tensor: return wrap(std::move(result.tensor));
    case Result::Form::tuple:
    case Result::Form::list: return wrap_tuple(result.tensors, overload.result_type);
    case Result::Form::boolean: return PyBool_FromLong(result.scalar.to<bool>());
    case Result::Form::dtype: return wrap_dtype(static_cast<DType>(result.scalar.to_int()));
    case Result::Form::text: return PyUnicode_FromStringAndSize(result.text.data(), static_cast<Py_ssize_t>(result.text.size()));
    default: return wrap_scalar(result.scalar);
  }
}

// Puts a fresh result into a tensor given by out=.
void write_out(const std::string& op, const Tensor& out, const Tensor& result) {
  CHECK(can_cast(result.dtype(), out.dtype()), RuntimeError,
        "{}(): result type {} can't be cast to the desired output type {}", op,
        dtype_legacy_name(result.dtype()), dtype_legacy_name(out.dtype()));
  CHECK(out.device() == result.device(), RuntimeError,
        "{}(): Expected out tensor to have device {}, but got {} instead", op, result.device(), out.device());
  CHECK(!(grad_enabled() && out.requires_grad()), RuntimeError,
        "{}(): functions with out=... arguments don't support automatic differentiation, but one of the "
        "arguments requires grad.",
        op);
  if (!(out.sizes() == result.sizes())) resize_tensor(out, result.sizes(), contiguous_strides(result.sizes()));
  const NoGrad off;
  copy_(out, result);
}

PyObject* into_out(const Family& family, Result& result, PyObject* out) {
  if (is_tensor(out)) {
    CHECK(result.form == Result::Form::tensor, TypeError, "{}(): argument 'out' must be tuple of Tensors, not Tensor", family.name);
    write_out(family.name, tensor_of(out), result.tensor);
    return Py_NewRef(out);
  }
  CHECK((PyTuple_Check(out) || PyList_Check(out)) && result.form == Result::Form::tuple &&
            PySequence_Fast_GET_SIZE(out) == static_cast<Py_ssize_t>(result.tensors.size()),
        TypeError, "{}(): argument 'out' must be {}, not {}", family.name,
        result.form == Result::Form::tensor ? "Tensor" : "tuple of Tensors", type_name(out));
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(out, static_cast<Py_ssize_t>(i));
    CHECK(is_tensor(item), TypeError, "{}(): argument 'out' must be tuple of Tensors, but element {} is {}",
          family.name, i, type_name(item));
    write_out(family.name, tensor_of(item), result.tensors[i]);
    result.tensors[i] = tensor_of(item);
  }
  return wrap_tuple(result.tensors, family.overloads[0].result_type);
}

// --- The call -------------------------------------------------------------------------------------

PyObject* run(const Overload& overload, Frame& frame, Result& result) {
  const GilRelease release(frame.largest >= gil_threshold);
  overload.op->invoke(overload.op->function, frame.values, result);
  return nullptr;
}

const Overload& find(const Family& family, const std::vector<Overload>& overloads, const Call& call,
                     Frame& frame, PyObject* skip) {
  Mismatch first;
  for (const Overload& overload : overloads) {
    Mismatch miss;
    if (match(overload, call, frame, miss, skip)) return overload;
    if (first.fault == Fault::none) first = miss;
    frame.options = Options();
    frame.largest = 0;
  }
  raise_mismatch(family, first, call);
}

bool any_override(const Call& call) {
  const Py_ssize_t n = call.nargs + call.keywords();
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* object = call.args[i];
    PyTypeObject* type = Py_TYPE(object);
    if (type == tensor_type || type == parameter_type) continue;
    if (has_override(object)) return true;
    if (type == &PyTuple_Type || type == &PyList_Type) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(object); ++k) {
        PyObject* item = PySequence_Fast_GET_ITEM(object, k);
        if (Py_TYPE(item) == tensor_type || !is_tensor(item)) {
          if (Py_TYPE(item) == &PyLong_Type || Py_TYPE(item) == &PyFloat_Type) break;
        }
        if (has_override(item)) return true;
      }
    }
  }
  return false;
}

// out= overwrites a tensor behind the graph's back, so nothing that goes in may want a gradient.
void check_no_gradients(const Family& family, const Call& call) {
  if (!grad_enabled()) return;
  const auto wants = [](PyObject* object) { return is_tensor(object) && tensor_of(object).requires_grad(); };
  bool any = false;
  for (Py_ssize_t i = 0; i < call.nargs + call.keywords(); ++i) {
    PyObject* object = call.args[i];
    any |= wants(object);
    if (!PyTuple_Check(object) && !PyList_Check(object)) continue;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(object); ++k) {
      any |= wants(PySequence_Fast_GET_ITEM(object, k));
    }
  }
  CHECK(!any, RuntimeError,
        "{}(): functions with out=... arguments don't support automatic differentiation, but one of the "
        "arguments requires grad.",
        family.name);
}

PyObject* call_family(const Family& family, const Call& call) {
  PyObject* out = nullptr;
  for (Py_ssize_t k = 0; k < call.keywords(); ++k) {
    if (PyTuple_GET_ITEM(call.kwnames, k) == name_out) out = call.args[call.nargs + k];
  }
  Frame frame;
  Result result;
  if (out && out != Py_None && !family.inplace_by_copy) {
    check_no_gradients(family, call);
    if (!family.out_forms.empty()) {
      CHECK(is_tensor(out), TypeError, "{}(): argument 'out' must be Tensor, not {}", family.name, type_name(out));
      const Overload& direct = find(family, family.out_forms, call, frame, nullptr);
      const NoGrad off;
      run(direct, frame, result);
      return Py_NewRef(out);
    }
    CHECK(family.takes_out, TypeError, "{}() got an unexpected keyword argument 'out'", family.name);
    const Overload& overload = find(family, family.overloads, call, frame, name_out);
    // A new tensor that goes into out= has out's dtype unless another one was asked for.
    if (is_tensor(out) && !frame.options.dtype) frame.options.dtype = tensor_of(out).dtype();
    const NoGrad off;
    run(overload, frame, result);
    return into_out(family, result, out);
  }
  const Overload& overload = find(family, family.overloads, call, frame, out ? name_out : nullptr);
  if (!family.inplace_by_copy) {
    run(overload, frame, result);
    return wrap_result(result, overload);
  }
  const Tensor& self = tensor_of(call.args[0]);
  check_inplace(family.name.c_str(), self);
  // What the op keeps of self for backward must not be what it overwrites.
  const Tensor kept = grad_enabled() && self.requires_grad() ? clone(self) : self;
  frame.values[0].tensor = &kept;
  run(overload, frame, result);
  CHECK(can_cast(result.tensor.dtype(), self.dtype()), RuntimeError,
        "{}(): result type {} can't be cast to the desired output type {}", family.name,
        dtype_legacy_name(result.tensor.dtype()), dtype_legacy_name(self.dtype()));
  CHECK(result.tensor.sizes() == self.sizes(), RuntimeError,
        "{}(): output with shape {} doesn't match the broadcast shape {}", family.name, self.sizes(),
        result.tensor.sizes());
  copy_(self, result.tensor);
  return Py_NewRef(call.args[0]);
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Call call{args, PyVectorcall_NARGS(nargsf), kwnames};
    const Family& family = *reinterpret_cast<OpObject*>(self)->family;
    if (modes_active() || any_override(call)) [[unlikely]] return call_override(self, args, call.nargs, kwnames);
    return call_family(family, call);
  });
}

PyObject* method_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
  if (nargs < 1 || !is_tensor(args[0])) {
    PyErr_Format(PyExc_TypeError, "descriptor '%s' for 'torch._C.TensorBase' objects doesn't apply to a '%s' object",
                 family.name.c_str(), nargs < 1 ? "missing" : Py_TYPE(args[0])->tp_name);
    return nullptr;
  }
  return op_vectorcall(self, args, nargsf, kwnames);
}

PyObject* method_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* op_repr(PyObject* self) {
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
  if (family.is_method) return PyUnicode_FromFormat("<method '%s' of 'torch._C.TensorBase' objects>", family.name.c_str());
  return PyUnicode_FromFormat("<built-in method %s of type object>", family.name.c_str());
}
PyObject* op_name(PyObject* self, void*) {
  return PyUnicode_FromString(reinterpret_cast<OpObject*>(self)->family->name.c_str());
}
PyObject* op_qualname(PyObject* self, void*) {
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
  return PyUnicode_FromFormat(family.is_method ? "TensorBase.%s" : "%s", family.name.c_str());
}
PyObject* op_module(PyObject* self, void*) {
  (void)self;
  return PyUnicode_FromString("flambeau");
}
PyObject* op_doc(PyObject* self, void*) {
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
  std::string text;
  for (const Overload& overload : family.overloads) {
    text += family.name + std::string(std::strchr(overload.op->signature, '(')) + "\n";
  }
  return PyUnicode_FromString((text + "\n" + family.doc).c_str());
}
PyObject* op_reduce(PyObject* self, PyObject*) {
  // By name, so that functions travel in pickles: flambeau.add, or Tensor.add.
  const Family& family = *reinterpret_cast<OpObject*>(self)->family;
  if (!family.is_method) return PyUnicode_FromString(family.name.c_str());
  Object builtins = check(PyImport_ImportModule("builtins"));
  Object getattr = check(PyObject_GetAttrString(builtins.get(), "getattr"));
  return Py_BuildValue("O(Os)", getattr.get(), reinterpret_cast<PyObject*>(tensor_type), family.name.c_str());
}

PyGetSetDef op_attributes[] = {{"__name__", op_name, nullptr, nullptr, nullptr},
                               {"__qualname__", op_qualname, nullptr, nullptr, nullptr},
                               {"__module__", op_module, nullptr, nullptr, nullptr},
                               {"__doc__", op_doc, nullptr, nullptr, nullptr},
                               {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyMemberDef op_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, vectorcall), READONLY, nullptr},
                            {nullptr, 0, 0, 0, nullptr}};

PyTypeObject* make_op_type(const char* name, bool method) {
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                         {Py_tp_getset, op_attributes},
                         {Py_tp_members, op_members},
                         {Py_tp_methods, op_methods},
                         {method ? Py_tp_descr_get : 0, method ? reinterpret_cast<void*>(method_get) : nullptr},
                         {0, nullptr}};
  unsigned long flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  // Python then calls the unbound method with self in front, without making a bound one.
  if (method) flags |= Py_TPFLAGS_METHOD_DESCRIPTOR;
  PyType_Spec spec{name, sizeof(OpObject), 0, static_cast<unsigned>(flags), slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

PyObject* call_method(const char* name, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Object method = check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
  return PyObject_Vectorcall(method.get(), args, nargs, kwnames);
}

bool add_ops(PyObject* module) {
  name_out = PyUnicode_InternFromString("out");
  name_dtype = PyUnicode_InternFromString("dtype");
  name_layout = PyUnicode_InternFromString("layout");
  name_device = PyUnicode_InternFromString("device");
  name_pin_memory = PyUnicode_InternFromString("pin_memory");
  name_requires_grad = PyUnicode_InternFromString("requires_grad");
  op_type = make_op_type("torch._C.builtin_function", false);
  method_type = make_op_type("torch._C.builtin_method", true);
  if (!op_type || !method_type) return false;
  Object functions(PyDict_New());
  for (auto& family : read_families()) {
    PyTypeObject* type = family->is_method ? method_type : op_type;
    auto* object = PyObject_New(OpObject, type);
    if (!object) return false;
    object->vectorcall = family->is_method ? method_vectorcall : op_vectorcall;
    object->family = family.release();  // as long as the process lives
    Object owned(reinterpret_cast<PyObject*>(object));
    const char* name = object->family->name.c_str();
    if (object->family->is_method) {
      // What the Tensor type defines by hand stays.
      if (PyDict_GetItemString(tensor_type->tp_dict, name)) continue;
      if (PyDict_SetItemString(tensor_type->tp_dict, name, owned.get()) < 0) return false;
    } else {
      if (PyDict_SetItemString(functions.get(), name, owned.get()) < 0) return false;
      if (PyModule_AddObjectRef(module, name, owned.get()) < 0) return false;
    }
  }
  PyType_Modified(tensor_type);
  return PyModule_AddObjectRef(module, "_ops", functions.get()) == 0;
}

}  // namespace flambeau::python
