// The tests that call each op once in each form: a function each, in tables that
// tests/cpp/test_forms.cpp goes through.
#include "tools/header/sampler.h"

namespace flambeau::print {
namespace {

constexpr std::pair<Way, const char*> tables[] = {{Way::function, "function_calls"},
                                                  {Way::method, "method_calls"},
                                                  {Way::in_place, "in_place_calls"},
                                                  {Way::in_place_method, "in_place_method_calls"},
                                                  {Way::out, "out_calls"}};

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + ", " + b;
}

// Declares the tensors among the arguments; `arguments` then is what to write in a call, and
// `self` its first, which a method or an in-place form is called on.
std::string declare(const Found& found, std::string& self, std::string& arguments) {
  std::string text;
  for (size_t i = 0; i < found.samples.size(); ++i) {
    const Sample& sample = *found.samples[i];
    const std::string name = sample.is_tensor ? "a" + std::to_string(i) : sample.text;
    if (sample.is_tensor) text += "  const Tensor " + name + " = " + sample.text + ";\n";
    if (i == 0) self = name;
    if (i > 0) arguments = joined(arguments, name);
  }
  return text;
}

std::string test_of(const CppForm& form, const CppForm* base, const Found& found) {
  std::string self, rest;
  std::string text = declare(found, self, rest);
  const std::string all = joined(self, rest), function = "torch::" + form.name;
  const std::string expected = base ? "torch::" + base->name + "(" + all + ")" : "";
  const auto run = [&](const char* result, const std::string& call) {
    text += std::string("  seed();\n  const Results ") + result + "(" + call + ");\n";
  };
  const auto kept = [&](const char* name) {
    text += std::string("  const Tensor ") + name + " = " + self + ".clone();\n";
  };
  const std::string values = found.has_values ? "true" : "false";
  if (form.writes_self()) {
    const auto written = [&](const std::string& tensor) {
      return form.is_method() ? tensor + "." + form.name + "(" + rest + ")"
                              : function + "(" + joined(tensor, rest) + ")";
    };
    kept("self");
    if (base) {
      run("expected", expected);
    } else {
      kept("other");
      run("expected", written("other"));
    }
    text += "  seed();\n  const Tensor& back = " + written("self") + ";\n";
    text += "  check_in_place(" + self + ", expected, self, back, " + values + ");\n";
  } else if (form.way == Way::out) {
    run("expected", expected);
    const bool one = form.returns() == Result::Form::tensor;
    if (one || form.outs.size() > 1) {
      std::string outs;
      for (size_t i = 0; i < form.outs.size(); ++i) {
        const std::string name = "out" + std::to_string(i);
        text += "  const Tensor " + name + " = expected.out(" + std::to_string(i) + ");\n";
        outs = joined(outs, name);
      }
      text += "  seed();\n  ";
      if (one) text += "const Tensor& back = ";
      text += function + "(" + joined(outs, all) + ");\n  check_out(expected, {" + outs + "}, " +
              (one ? "&back" : "nullptr") + ", " + values + ");\n";
    } else {
      text += "  const std::vector<Tensor> outs = expected.outs();\n  seed();\n  " + function +
              "(" + joined("outs", all) + ");\n  check_out(expected, outs, nullptr, " + values +
              ");\n";
    }
  } else {
    const std::string call =
        form.is_method() ? self + "." + form.name + "(" + rest + ")" : function + "(" + all + ")";
    if (form.returns() == Result::Form::none) return text + "  " + call + ";\n";
    run("expected", base ? expected : call);
    run("result", call);
    text += "  check_equal(expected, result, " + values + ");\n";
  }
  return text;
}

}  // namespace

void print_tests(std::string& text) {
  const std::vector<CppForm> forms = all_forms();
  Sampler sampler(forms);
  std::string calls, missing;
  int number = 0;
  text =
      "// Each op once in each of its forms. Printed from the registry by flambeau-header.\n"
      "#include \"tests/cpp/forms.h\"\n\nnamespace flambeau::forms {\n\n";
  for (const auto& [way, table] : tables) {
    std::string rows;
    for (const CppForm& form : forms) {
      if (form.way != way) continue;
      const CppForm* base = sampler.base_of(form);
      std::optional<Found> found;
      if (base || way != Way::out) found = sampler.find(form);
      const std::string name = form.name + ": " + form.overload->op->signature;
      if (!found) {
        missing += "    \"" + name + "\",\n";
        continue;
      }
      const std::string id = std::string(table) + "_" + std::to_string(number++) + "_" + form.name;
      text += "static void " + id + "() {\n" + test_of(form, base, *found) + "}\n";
      rows += "    {\"" + name + "\", " + id + "},\n";
    }
    calls += "const std::vector<Call> " + std::string(table) + " = {\n" + rows + "};\n";
  }
  text += "\n" + calls + "const std::vector<const char*> not_called = {\n" + missing +
          "};\n\n}  // namespace flambeau::forms\n";
}

}  // namespace flambeau::print
