// The registry as Python data: what the stub writer, the docs and the tests read. Everything comes
// from the rows that ops were registered with.
#include <string>

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
  const std::string_view signature(op.signature);
  const std::string name(signature.substr(0, signature.find('(')));
  const std::string_view rest = signature.substr(name.size() + 1);
  const bool has_self = op.arity > 0 && op.kinds[0] == Kind::tensor &&
                        (rest.starts_with("input") || rest.starts_with("self"));
  const auto as_bool = [](bool value) { return value ? Py_True : Py_False; };
  const Object words = argument_words(op);
  return check(Py_BuildValue(
      "{s:s, s:s, s:s, s:O, s:s, s:O, s:O, s:O, s:O}", "name", name.c_str(), "signature",
      op.signature, "doc", op.doc, "arguments", words.get(), "returns", word(op.returns),
      "function", as_bool(!(op.flags & OpDef::method_only)), "method",
      as_bool(has_self && !(op.flags & OpDef::function_only)), "inplace",
      as_bool(op.flags & OpDef::has_inplace), "view", as_bool(op.flags & OpDef::makes_view)));
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

PyMethodDef registry_method = {"_op_registry", registry, METH_NOARGS, "Every registered op."};

}  // namespace

bool add_registry(PyObject* module) {
  const Object function(PyCFunction_New(&registry_method, nullptr));
  return function && PyModule_AddObjectRef(module, "_op_registry", function.get()) == 0;
}

}  // namespace flambeau::python
