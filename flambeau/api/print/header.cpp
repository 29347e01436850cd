// flambeau/torch.h: all ops as functions and methods, in all their forms.
#include <algorithm>

#include "flambeau/api/print/cpp_forms.h"

namespace flambeau::print {
namespace {

std::string return_type(const CppForm& form) {
  if (form.writes_self()) return "Tensor&";
  if (form.way == Way::out) {
    return form.outs.size() == 1 && form.returns() == Result::Form::tensor ? "Tensor&" : "void";
  }
  switch (form.returns()) {
    case Result::Form::none: return "void";
    case Result::Form::tensor: return "Tensor";
    case Result::Form::tuple: {
      if (form.overload->results.empty()) return "std::vector<Tensor>";
      std::string text = "std::tuple<Tensor";
      for (size_t i = 1; i < form.overload->results.size(); ++i) text += ", Tensor";
      return text + ">";
    }
    case Result::Form::list: return "std::vector<Tensor>";
    case Result::Form::boolean: return "bool";
    case Result::Form::integer: return "int64_t";
    case Result::Form::real: return "double";
    case Result::Form::scalar: return "Scalar";
    case Result::Form::dtype: return "DType";
    case Result::Form::text: return "std::string";
  }
  return "";
}

// How it hands its result on.
std::string call_of(const CppForm& form) {
  if (form.way == Way::out) {
    if (form.outs.size() == 1 && form.returns() == Result::Form::tensor)
      return "op_.into(v_, out); return detail::written(out);";
    std::string list = form.outs[0];
    for (size_t i = 1; i < form.outs.size(); ++i) list += ", " + form.outs[i];
    return "op_.into(v_, TensorList{" + list + "});";
  }
  if (form.writes_self()) {
    const std::string self = form.way == Way::in_place ? form.parameters[0].name : "*this";
    return "op_(v_); return detail::written(" + self + ");";
  }
  switch (form.returns()) {
    case Result::Form::none: return "op_(v_);";
    case Result::Form::tensor: return "return op_.tensor(v_);";
    case Result::Form::tuple:
      if (!form.overload->results.empty())
        return "return detail::tuple<" + return_type(form) + ">(op_.tensors(v_));";
      [[fallthrough]];
    case Result::Form::list: return "return detail::list(op_.tensors(v_));";
    case Result::Form::dtype: return "return op_.dtype(v_);";
    case Result::Form::text: return "return op_.text(v_);";
    case Result::Form::scalar: return "return op_.scalar(v_);";
    default: return "return op_.scalar(v_).to<" + return_type(form) + ">();";
  }
}

std::string parameters_of(const CppForm& form) {
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (form.way == Way::out) {
    const bool one = form.returns() == Result::Form::tensor || form.outs.size() > 1;
    for (const std::string& out : form.outs)
      add((one ? "const Tensor& " : "const TensorList& ") + out);
  }
  for (const CppParameter& p : form.parameters)
    add(p.type + " " + p.name + (p.fallback.empty() ? "" : " = " + p.fallback));
  return text;
}

std::string values_of(const CppForm& form) {
  std::string text;
  for (const Parameter& p : form.overload->parameters) {
    if (!text.empty()) text += ", ";
    const auto by_name = std::ranges::find(form.parameters, &p, &CppParameter::from);
    if (by_name != form.parameters.end()) {
      text += "of(" + by_name->name + ")";
    } else if (form.direct()) {
      text += "of(out)";
    } else {
      text += p.kind == Kind::operand ? "of(self_)" : "of(*this)";
    }
  }
  return text;
}

void print_form(std::string& text, const CppForm& form) {
  const bool method = form.is_method();
  const std::string indent = method ? "  " : "";
  text += indent + (method ? "" : "inline ") + return_type(form) + " " + form.name + "(" +
          parameters_of(form) + (method ? ") const {\n" : ") {\n");
  text += indent + "  static const Op op_(\"" + form.family->name + "\", " +
          std::to_string(form.index) + ", \"" + form.overload->op->signature +
          (method ? "\", true);\n" : "\");\n");
  if (method && form.overload->parameters[0].kind == Kind::operand)
    text += indent + "  const Operand self_(*this);\n";
  text += indent + "  Value v_[] = {" + values_of(form) + "};\n";
  text += indent + "  " + call_of(form) + "\n" + indent + "}\n";
}

}  // namespace

void print_header(std::string& text) {
  const std::vector<CppForm> forms = all_forms();
  text =
      "// All ops of Flambeau for C++ programs: functions, methods, in-place and out forms. "
      "Printed\n"
      "// from the registry of ops by flambeau-header; see docs/cpp.md.\n"
      "#pragma once\n\n#include <cmath>\n\n#include \"flambeau/api/tensor_base.h\"\n\n"
      "namespace flambeau::torch {\n\n"
      "class Tensor : public TensorBase {\n public:\n  using TensorBase::TensorBase;\n"
      "  using TensorBase::item;\n";
  for (const CppForm& form : forms) {
    if (form.is_method()) print_form(text, form);
  }
  text += "};\n\n";
  for (const CppForm& form : forms) {
    if (!form.is_method()) print_form(text, form);
  }
  text += "\n}  // namespace flambeau::torch\n\n#include \"flambeau/api/tensor.h\"\n";
}

}  // namespace flambeau::print
