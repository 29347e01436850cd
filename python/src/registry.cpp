// The registry as Python data: what the stub writer, the docs and the tests read. Everything comes
// from the rows that ops were registered with.
#include <cstring>
#include <string>

#include "flambeau/base/check.h"
#include "flambeau/ops/signature.h"
#include "python/src/binding.h"

namespace flambeau::python {
namespace {

const char* word(Kind kind) {
  switch (kind) {
    case Kind::tensor: return "tensor";
    case Kind::operand: return "operand";
    case Kind::scalar: return "scalar";
    case Kind::integer: return "integer";
    case Kind::real: return "real";
    case Kind::boolean: return "boolean";
    case Kind::ints: return "ints";
    case Kind::reals: return "reals";
    case Kind::tensors: return "tensors";
    case Kind::dtype: return "dtype";
    case Kind::device: return "device";
    case Kind::layout: return "layout";
    case Kind::memory_format: return "memory_format";
    case Kind::string: return "string";
    case Kind::generator: return "generator";
    case Kind::options: return "options";
  }
  return "";
}

const char* word(Result::Form form) {
  switch (form) {
    case Result::Form::none: return "none";
    case Result::Form::tensor: return "tensor";
    case Result::Form::tuple: return "tuple";
    case Result::Form::list: return "list";
    case Result::Form::boolean: return "boolean";
    case Result::Form::integer: return "integer";
    case Result::Form::real: return "real";
    case Result::Form::scalar: return "scalar";
    case Result::Form::dtype: return "dtype";
    case Result::Form::text: return "text";
  }
  return "";
}

// ["tensor", "integer?"]: the kinds of the arguments, those that may be None with a question mark.
Object argument_words(const OpDef& op) {
  Object words = check(PyList_New(0));
  for (int i = 0; i < op.arity; ++i) {
    const std::string text = std::string(word(op.kinds[i])) + (op.nullable[i] ? "?" : "");
    const Object item = check(PyUnicode_FromString(text.c_str()));
    if (PyList_Append(words.get(), item.get()) < 0) throw PythonError();
  }
  return words;
}

Object describe(const OpDef& op) {
  const std::string name(op_name_of(op));
  const std::string arguments = std::strchr(op.signature, '(');
  const std::string_view rest = std::string_view(arguments).substr(1);
  const bool has_self = op.arity > 0 && op.kinds[0] == Kind::tensor &&
                        (rest.starts_with("input") || rest.starts_with("self"));
  const auto as_bool = [](bool value) { return value ? Py_True : Py_False; };
  const Object words = argument_words(op);
  return check(Py_BuildValue(
      "{s:s, s:s, s:s, s:O, s:s, s:O, s:O, s:O, s:O, s:K}", "name", name.c_str(), "signature",
      (name + arguments).c_str(), "doc", op.doc, "arguments", words.get(), "returns",
      word(op.returns), "function", as_bool(!(op.flags & OpDef::method_only)), "method",
      as_bool(has_self && !(op.flags & OpDef::function_only)), "inplace",
      as_bool(op.flags & OpDef::has_inplace), "view", as_bool(op.flags & OpDef::makes_view),
      // Ops of one function are aliases.
      "computed_by", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(op.function))));
}

PyObject* registry(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    Object list = check(PyList_New(0));
    for (const OpDef* op : all_ops()) {
      if (op->flags & OpDef::out_form) continue;
      if (PyList_Append(list.get(), describe(*op).get()) < 0) throw PythonError();
    }
    return list.release();
  });
}

struct Property {
  uint64_t flag;
  const char* word;
};
constexpr Property properties[] = {{OpDef::makes_view, "view"},
                                   {OpDef::moves, "moves"},
                                   {OpDef::composed, "composed"},
                                   {OpDef::metadata, "metadata"},
                                   {OpDef::gives_bool, "gives_bool"},
                                   {OpDef::linear, "linear"},
                                   {OpDef::takes_sparse, "takes_sparse"},
                                   {OpDef::has_inplace, "inplace"},
                                   {OpDef::dynamic_shape, "dynamic_shape"},
                                   {OpDef::takes_jagged, "takes_jagged"},
                                   {OpDef::takes_nested, "takes_nested"},
                                   {OpDef::converts, "converts"},
                                   {OpDef::takes_quantized, "takes_quantized"},
                                   {OpDef::keeps_zero, "keeps_zero"},
                                   {OpDef::foreach, "foreach"},
                                   {OpDef::in_special, "in_special"}};

const char* kind_word(const OpDef& op) {
  switch (op.kind()) {
    case OpDef::elementwise: return "elementwise";
    case OpDef::reduces: return "reduces";
    case OpDef::along: return "along";
    case OpDef::batches: return "batches";
    case OpDef::reshapes: return "reshapes";
    case OpDef::joins: return "joins";
    case OpDef::creates: return "creates";
    case OpDef::draws: return "draws";
    default: return nullptr;
  }
}

// What autocast computes the op in: "cpu_low".
std::string autocast_word(const OpDef& op, const char* device, int at) {
  constexpr const char* policies[] = {"", "low", "exact", "widest", "narrowest", "refused"};
  const uint64_t policy = op.flags >> at & 7;
  return policy ? std::string(device) + policies[policy] : "";
}

void add_word(PyObject* set, const char* word) {
  if (!word) return;
  const Object text = check(PyUnicode_FromString(word));
  if (PySet_Add(set, text.get()) < 0) throw PythonError();
}

// _properties(name): what is known of the overloads of an op, in words; empty if there is no such
// op.
PyObject* properties_of(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) throw PythonError();
    Object words = check(PyFrozenSet_New(nullptr));
    for (const bool method : {false, true}) {
      const Family* family = find_family(text, method);
      if (!family) continue;
      add_word(words.get(), "op");
      if (family->takes_out) add_word(words.get(), "out");
      for (const Overload& overload : family->overloads) {
        for (const Property& property : properties) {
          if (overload.op->has(property.flag)) add_word(words.get(), property.word);
        }
        add_word(words.get(), kind_word(*overload.op));
        for (const std::string& policy :
             {autocast_word(*overload.op, "cpu_", 52), autocast_word(*overload.op, "cuda_", 55)}) {
          if (!policy.empty()) add_word(words.get(), policy.c_str());
        }
      }
    }
    return words.release();
  });
}

// _ops_with(word): the names of all ops of which that is known.
PyObject* ops_with(PyObject*, PyObject* word) {
  return guarded([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(word);
    if (!text) throw PythonError();
    uint64_t flag = 0;
    for (const Property& property : properties) {
      if (std::string_view(property.word) == text) flag = property.flag;
    }
    CHECK(flag, ValueError, "_ops_with: no op has the property '{}'", text);
    Object names = check(PyList_New(0));
    for (const auto& family : all_families()) {
      if (!family->has(flag)) continue;
      const Object name = check(PyUnicode_FromString(family->name.c_str()));
      if (PyList_Append(names.get(), name.get()) < 0) throw PythonError();
    }
    return names.release();
  });
}

PyMethodDef ops_with_method = {"_ops_with", ops_with, METH_O,
                               "The names of the ops that have a property."};
PyMethodDef properties_method = {"_properties", properties_of, METH_O,
                                 "What is known of an op, in words."};
PyMethodDef registry_method = {"_op_registry", registry, METH_NOARGS, "Every registered op."};

}  // namespace

bool add_registry(PyObject* module) {
  const Object function(PyCFunction_New(&registry_method, nullptr));
  const Object words(PyCFunction_New(&properties_method, nullptr));
  const Object names(PyCFunction_New(&ops_with_method, nullptr));
  return function && words && names &&
         PyModule_AddObjectRef(module, "_op_registry", function.get()) == 0 &&
         PyModule_AddObjectRef(module, "_properties", words.get()) == 0 &&
         PyModule_AddObjectRef(module, "_ops_with", names.get()) == 0;
}

}  // namespace flambeau::python
