#include "tools/header/cpp_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "flambeau/base/check.h"

namespace flambeau::print {
namespace {

// A method like x.float(), whose name means something else in C++, is x.to_float().
std::string cpp_name(const std::string& name) {
  static constexpr std::array<std::string_view, 20> taken = {
      "and", "auto", "bool", "case", "char",  "default", "delete", "double", "export", "float",
      "int", "long", "not",  "or",   "short", "signed",  "switch", "union",  "void",   "xor"};
  return std::ranges::find(taken, name) == taken.end() ? name : "to_" + name;
}

std::string type_of(const Parameter& p) {
  const bool none = p.nullable;
  switch (p.kind) {
    case Kind::tensor: return p.required ? "const Tensor&" : "const OptionalTensor&";
    case Kind::operand: return "const Operand&";
    case Kind::scalar: return none ? "const std::optional<Scalar>&" : "const Scalar&";
    case Kind::integer: return none ? "std::optional<int64_t>" : "int64_t";
    case Kind::real: return none ? "std::optional<double>" : "double";
    case Kind::boolean: return none ? "std::optional<bool>" : "bool";
    case Kind::ints: return none ? "const OptionalIntArrayRef&" : "IntArrayRef";
    case Kind::reals: return none ? "const std::optional<Reals>&" : "const Reals&";
    case Kind::tensors: return "const ITensorListRef&";
    case Kind::dtype: return none ? "std::optional<ScalarType>" : "ScalarType";
    case Kind::device: return none ? "std::optional<Device>" : "Device";
    case Kind::layout: return none ? "std::optional<Layout>" : "Layout";
    case Kind::memory_format: return none ? "std::optional<MemoryFormat>" : "MemoryFormat";
    case Kind::string: return none ? "std::optional<std::string_view>" : "std::string_view";
    case Kind::generator: return "const std::optional<Generator>&";
    case Kind::options: return "const TensorOptions&";
  }
  return "";
}

std::string number(double value) {
  if (std::isinf(value)) return value < 0 ? "-HUGE_VAL" : "HUGE_VAL";
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.17g", value);
  for (int digits = 1; digits < 17; ++digits) {
    std::array<char, 32> shorter;
    std::snprintf(shorter.data(), shorter.size(), "%.*g", digits, value);
    if (std::strtod(shorter.data(), nullptr) == value) {
      text = shorter;
      break;
    }
  }
  std::string printed(text.data());
  return printed.find_first_of(".e") == std::string::npos ? printed + ".0" : printed;
}

std::string number(const Scalar& value) {
  if (value.is_boolean()) return value.to<bool>() ? "true" : "false";
  return value.is_integral() ? std::to_string(value.to_int()) : number(value.to_double());
}

std::string default_of(const Parameter& p) {
  if (p.required) return "";
  if (p.kind == Kind::generator) return "nullopt";
  if (!p.fallback.given) return "{}";
  switch (p.kind) {
    case Kind::integer: return std::to_string(p.fallback.integer);
    case Kind::real: return number(p.fallback.real);
    case Kind::boolean: return p.fallback.flag ? "true" : "false";
    case Kind::scalar:
    case Kind::operand: return number(p.scalar);
    case Kind::string: return "\"" + p.string + "\"";
    case Kind::ints: {
      std::string text = "{";
      for (const int64_t value : p.ints)
        text += (text.size() > 1 ? ", " : "") + std::to_string(value);
      return text + "}";
    }
    case Kind::memory_format:
      return "static_cast<MemoryFormat>(" + std::to_string(p.fallback.code) + ")";
    case Kind::layout: return "Layout::strided";
    default: return "{}";
  }
}

// zeros({2}, kFloat): what Python takes by keyword has an order here, and options come first; a
// generator may stand in front of them.
void arrange_options(CppForm& form) {
  std::vector<CppParameter>& all = form.parameters;
  const auto find = [&](Kind kind) {
    return std::ranges::find_if(all, [&](const CppParameter& p) { return p.from->kind == kind; });
  };
  auto options = find(Kind::options);
  if (options == all.end()) return;
  size_t kept = 0;
  const auto is_keyword = [](const CppParameter& p) { return p.from->keyword_only; };
  std::erase_if(all, [&](const CppParameter& p) {
    return !p.from->keyword_only && p.from->kind != Kind::options && !p.fallback.empty() &&
           kept++ >= form.before_options;
  });
  options = find(Kind::options);
  std::rotate(std::ranges::find_if(all, is_keyword), options, options + 1);
  const auto generator = find(Kind::generator);
  if (generator == all.end()) return;
  if (form.with_generator) {
    generator->fallback.clear();
    std::rotate(find(Kind::options), generator, generator + 1);
  } else {
    all.erase(generator);
  }
}

void fill(CppForm& form) {
  const std::vector<Parameter>& from = form.overload->parameters;
  for (size_t i = form.is_method() ? 1 : 0; i < from.size(); ++i) {
    if (form.direct() && from[i].name == "out") continue;
    const std::string unset = default_of(from[i]);
    form.parameters.push_back({type_of(from[i]), cpp_name(from[i].name), unset, unset, &from[i]});
  }
  arrange_options(form);
  // Only the last ones may be left out.
  bool optional = true;
  for (size_t i = form.parameters.size(); i-- > 0;) {
    optional &= !form.parameters[i].fallback.empty();
    if (!optional) form.parameters[i].fallback.clear();
  }
  if (form.way != Way::out) return;
  const std::vector<std::string>& names = form.overload->results;
  for (size_t i = 0; i < form.overload->op->n_results; ++i)
    form.outs.push_back(names.empty() ? "out" + std::to_string(i) : "out_" + names[i]);
  if (form.outs.empty()) form.outs = {"out"};
}

bool written_by_name(const Family& family) {
  if (family.name.back() != '_' || !(family.inplace_by_copy || family.writes_self)) return false;
  const Overload& overload = family.overloads.front();
  return !overload.parameters.empty() && overload.parameters[0].kind == Kind::tensor &&
         overload.op->returns == Result::Form::tensor;
}

bool makes_tensors(const OpDef& op) {
  return op.returns == Result::Form::tensor || op.returns == Result::Form::tuple ||
         op.returns == Result::Form::list;
}

// Whether a call may mean either: a number is an operand too.
bool alike(const std::string& a, const std::string& b) {
  const auto takes_numbers = [](const std::string& type) {
    return type.find("Scalar&") != std::string::npos || type.find("Operand") != std::string::npos;
  };
  return a == b || (takes_numbers(a) && takes_numbers(b));
}

// How many arguments tell `later` from `earlier` in every call.
int apart_from(const CppForm& earlier, const CppForm& later) {
  if (earlier.way == Way::out && earlier.outs.size() != later.outs.size()) return 0;
  const size_t both = std::min(earlier.parameters.size(), later.parameters.size());
  size_t same = 0;
  while (same < both && alike(earlier.parameters[same].type, later.parameters[same].type)) ++same;
  const int most = static_cast<int>(same);
  return most >= earlier.required() ? most + 1 : 0;
}

class Forms {
 public:
  void add(Way way, const std::string& name, const Family& family, const Overload& overload,
           int index) {
    if (overload.op->has(OpDef::cpp_by_hand) && way != Way::out) return;
    const auto count = [&](auto is) {
      return static_cast<size_t>(std::ranges::count_if(overload.parameters, is));
    };
    const auto of_kind = [](Kind kind) {
      return [=](const Parameter& p) { return p.kind == kind; };
    };
    CppForm form{way, cpp_name(name), &family, &overload, index, {}, {}};
    if (count(of_kind(Kind::options)) == 0) return add_form(std::move(form));
    const size_t optional = count([](const Parameter& p) {
      return !p.required && !p.keyword_only && p.kind != Kind::options;
    });
    for (form.before_options = 0; form.before_options <= optional; ++form.before_options) {
      for (const bool with : {true, false}) {
        form.with_generator = with;
        if (!with || count(of_kind(Kind::generator)) > 0) add_form(form);
      }
    }
  }
  void add_form(CppForm form) {
    fill(form);
    std::vector<size_t>& before = by_name_[{form.is_method(), form.name}];
    for (const size_t at : before) {
      const int needed = apart_from(forms_[at], form);
      if (needed > static_cast<int>(form.parameters.size())) return;
      for (int i = 0; i < needed; ++i) form.parameters[static_cast<size_t>(i)].fallback.clear();
    }
    before.push_back(forms_.size());
    forms_.push_back(std::move(form));
  }
  void add(const Family& family) {
    const bool in_place = written_by_name(family);
    const Way way = family.is_method ? (in_place ? Way::in_place_method : Way::method)
                                     : (in_place ? Way::in_place : Way::function);
    int index = 0;
    for (const Overload& overload : family.overloads)
      add(way, family.name, family, overload, index++);
    if (family.is_method || family.name.back() == '_') return;
    for (const Overload& overload : family.out_forms)
      add(Way::out, family.name + "_out", family, overload, index++);
    if (!family.takes_out) return;
    index = 0;
    for (const Overload& overload : family.overloads) {
      if (makes_tensors(*overload.op)) add(Way::out, family.name + "_out", family, overload, index);
      ++index;
    }
  }
  std::vector<CppForm> take() { return std::move(forms_); }

 private:
  std::vector<CppForm> forms_;
  std::map<std::pair<bool, std::string>, std::vector<size_t>> by_name_;
};

}  // namespace

int CppForm::required() const {
  int count = 0;
  for (const CppParameter& parameter : parameters) count += parameter.fallback.empty();
  return count;
}

bool CppForm::leaves_out(const Parameter& parameter) const {
  const bool first = &parameter == overload->parameters.data();
  return !(first && is_method()) &&
         std::ranges::find(parameters, &parameter, &CppParameter::from) == parameters.end();
}

std::vector<CppForm> all_forms() {
  Forms forms;
  for (const auto& family : all_families()) forms.add(*family);
  return forms.take();
}

}  // namespace flambeau::print
