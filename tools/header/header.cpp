// flambeau/torch.h: all ops as functions and methods, in all their forms; and what they do, which
// is compiled once (libflambeau_torch) and not in every program.
#include <algorithm>

#include "tools/header/cpp_forms.h"

namespace flambeau::print {
namespace {

std::string return_type(const CppForm& form) {
  if (form.writes_self()) return "Tensor&";
  if (form.way == Way::out) {
    if (form.outs.size() == 1) return form.returns() == Result::Form::tensor ? "Tensor&" : "void";
    std::string text = "std::tuple<Tensor&";
    for (size_t i = 1; i < form.outs.size(); ++i) text += ", Tensor&";
    return text + ">";
  }
  switch (form.returns()) {
    case Result::Form::none: return "void";
    case Result::Form::tensor: return "Tensor";
    case Result::Form::tuple: {
      const int n = form.overload->op->n_results;
      if (n == 0) return "std::vector<Tensor>";
      std::string text = "std::tuple<Tensor";
      for (int i = 1; i < n; ++i) text += ", Tensor";
      return text + ">";
    }
    case Result::Form::list: return "std::vector<Tensor>";
    case Result::Form::boolean: return "bool";
    case Result::Form::integer: return "int64_t";
    case Result::Form::real: return "double";
    case Result::Form::scalar: return "Scalar";
    case Result::Form::dtype: return "ScalarType";
    case Result::Form::text: return "std::string";
  }
  return "";
}

// How it hands its result on.
std::string call_of(const CppForm& form) {
  if (form.way == Way::out) {
    if (form.outs.size() == 1 && form.returns() == Result::Form::tensor)
      return "op_.into(v_, out); return detail::written(out);";
    std::string list = form.outs[0], back = "detail::written(" + form.outs[0] + ")";
    for (size_t i = 1; i < form.outs.size(); ++i) {
      list += ", " + form.outs[i];
      back += ", detail::written(" + form.outs[i] + ")";
    }
    const std::string write = "op_.into(v_, ITensorListRef{" + list + "});";
    return form.outs.size() == 1 ? write : write + " return {" + back + "};";
  }
  if (form.writes_self()) {
    const std::string self = form.way == Way::in_place ? form.parameters[0].name : "*this";
    return "op_(v_); return detail::written(" + self + ");";
  }
  switch (form.returns()) {
    case Result::Form::none: return "op_(v_);";
    case Result::Form::tensor: return "return op_.tensor(v_);";
    case Result::Form::tuple:
      if (form.overload->op->n_results > 0)
        return "return detail::tuple<" + return_type(form) + ">(op_.tensors(v_));";
      [[fallthrough]];
    case Result::Form::list: return "return detail::list(op_.tensors(v_));";
    case Result::Form::dtype: return "return op_.dtype(v_);";
    case Result::Form::text: return "return op_.text(v_);";
    case Result::Form::scalar: return "return op_.scalar(v_);";
    default: return "return op_.scalar(v_).to<" + return_type(form) + ">();";
  }
}

std::string parameters_of(const CppForm& form, bool with_defaults) {
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (form.way == Way::out) {
    const bool one = form.returns() == Result::Form::tensor || form.outs.size() > 1;
    for (const std::string& out : form.outs)
      add((one ? "const Tensor& " : "const ITensorListRef& ") + out);
  }
  for (const CppParameter& p : form.parameters)
    add(p.type + " " + p.name + (p.fallback.empty() || !with_defaults ? "" : " = " + p.fallback));
  return text;
}

std::string values_of(const CppForm& form) {
  std::string text;
  for (const Parameter& p : form.overload->parameters) {
    if (!text.empty()) text += ", ";
    const auto by_name = std::ranges::find(form.parameters, &p, &CppParameter::from);
    if (by_name != form.parameters.end()) {
      text += "of(" + by_name->name + ")";
    } else if (form.direct() && p.name == "out") {
      text += "of(out)";
    } else if (form.leaves_out(p)) {
      text += "op_.unset(" + std::to_string(&p - form.overload->parameters.data()) + ")";
    } else {
      text += p.kind == Kind::operand ? "of(self_)" : "of(*this)";
    }
  }
  return text;
}

void declare(std::string& text, const CppForm& form) {
  const bool method = form.is_method();
  text += (method ? "  " : "") + return_type(form) + " " + form.name + "(" +
          parameters_of(form, true) + (method ? ") const;\n" : ");\n");
}

void define(std::string& text, const CppForm& form) {
  const bool method = form.is_method();
  text += return_type(form) + (method ? " Tensor::" : " ") + form.name + "(" +
          parameters_of(form, false) + (method ? ") const {\n" : ") {\n");
  text += "  static const Op op_(\"" + form.family->name + "\", " + std::to_string(form.index) +
          ", \"" + form.overload->op->signature + (method ? "\", true);\n" : "\");\n");
  if (method && form.overload->parameters[0].kind == Kind::operand)
    text += "  const Operand self_(*this);\n";
  text += "  Value v_[] = {" + values_of(form) + "};\n  " + call_of(form) + "\n}\n";
}

// fft_ifft() as fft::ifft() as well.
void print_short_name(std::string& text, const CppForm& form, const std::string& prefix) {
  CppForm named = form;
  named.name = form.name.substr(prefix.size());
  std::string arguments;
  for (const CppParameter& p : form.parameters)
    arguments += (arguments.empty() ? "" : ", ") + p.name;
  text += "inline " + return_type(form) + " " + named.name + "(" + parameters_of(form, true) +
          ") {\n  return torch::" + form.name + "(" + arguments + ");\n}\n";
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
      "  Tensor() = default;\n"
      "  Tensor(const Tensor&) = default;\n"
      "  Tensor(Tensor&&) = default;\n"
      "  Tensor& operator=(const Tensor&) & = default;\n"
      "  Tensor& operator=(Tensor&&) & = default;\n"
      "  // x[0] = values, where the left side is a view.\n"
      "  Tensor& operator=(const Tensor& values) && { return copy_(values); }\n"
      "  Tensor& operator=(Tensor&& values) && {  // NOLINT: a write may raise\n"
      "    return copy_(values);\n"
      "  }\n"
      "  Tensor& operator=(const Scalar& value) && { return fill_(value); }\n";
  for (const CppForm& form : forms) {
    if (form.is_method()) declare(text, form);
  }
  text += "};\n\n";
  for (const CppForm& form : forms) {
    if (!form.is_method()) declare(text, form);
  }
  for (const std::string name : {"fft", "linalg", "special"}) {
    text += "namespace " + name + " {\n";
    for (const CppForm& form : forms) {
      if (form.way != Way::function) continue;
      if (form.name.starts_with(name + "_")) {
        print_short_name(text, form, name + "_");
      } else if (name == "special" && form.overload->op->has(OpDef::in_special)) {
        text += "using torch::" + form.name + ";\n";
      }
    }
    text += "}  // namespace " + name + "\n";
  }
  text += "\n}  // namespace flambeau::torch\n\n#include \"flambeau/api/tensor.h\"\n";
}

void print_bodies(std::string& text) {
  text =
      "// What stands behind flambeau/torch.h. Printed by flambeau-header.\n"
      "#include \"flambeau/torch.h\"\n\nnamespace flambeau::torch {\n\n";
  for (const CppForm& form : all_forms()) define(text, form);
  text += "\n}  // namespace flambeau::torch\n";
}

}  // namespace flambeau::print
