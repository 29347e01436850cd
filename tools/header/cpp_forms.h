// Every way in which a C++ program calls an op: what flambeau-header prints, read from the
// registry.
#pragma once

#include <string>
#include <vector>

#include "flambeau/ops/signature.h"

namespace flambeau::print {

struct CppParameter {
  std::string type, name;
  std::string fallback;  // empty if it has to be given
  std::string unset;     // what the signature says where nothing is given
  const Parameter* from;
};

enum class Way { function, method, in_place, in_place_method, out };

struct CppForm {
  Way way;
  std::string name;  // in C++
  const Family* family;
  const Overload* overload;
  int index;                             // as torch::Op counts
  std::vector<CppParameter> parameters;  // without the tensor of a method
  std::vector<std::string> outs;         // names
  // Of ops that take options: whether a generator stands in front of them, and how many of the
  // arguments before them that have a default do.
  bool with_generator = false;
  size_t before_options = SIZE_MAX;
  [[nodiscard]] bool is_method() const { return way == Way::method || way == Way::in_place_method; }
  [[nodiscard]] bool writes_self() const {
    return way == Way::in_place || way == Way::in_place_method;
  }
  [[nodiscard]] Result::Form returns() const { return overload->op->returns; }
  // Whether it writes into out= itself, which is one of its arguments then.
  [[nodiscard]] bool direct() const { return overload->op->has(OpDef::out_form); }
  [[nodiscard]] int required() const;
  // Whether this parameter of the signature is one of those, and not in this form.
  [[nodiscard]] bool leaves_out(const Parameter& parameter) const;
};

// Functions and methods, in the order of the registry. Of overloads that C++ cannot tell apart the
// first stays; where only defaults are in the way, those of the later one go.
std::vector<CppForm> all_forms();

void print_header(std::string& text);
void print_bodies(std::string& text);
void print_tests(std::string& text);

}  // namespace flambeau::print
