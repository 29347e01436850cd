#include "flambeau/ops/signature.h"

#include <cmath>
#include <unordered_map>

#include "flambeau/base/check.h"
#include "flambeau/base/current_op.h"
#include "flambeau/ops/call.h"

namespace flambeau {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The items between commas that are not inside brackets or quotes.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> items;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0 && !quoted)) {
      if (i > begin) items.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '\'') {
      quoted = !quoted;
    } else if (text[i] == '(' || text[i] == '[') {
      ++depth;
    } else if (text[i] == ')' || text[i] == ']') {
      --depth;
    }
  }
  return items;
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::tensor: return "Tensor";
    case Kind::operand: return "Tensor or Number";
    case Kind::scalar: return "Number";
    case Kind::integer: return "int";
    case Kind::real: return "float";
    case Kind::boolean: return "bool";
    case Kind::ints: return "tuple of ints";
    case Kind::reals: return "tuple of floats";
    case Kind::tensors: return "tuple of Tensors";
    case Kind::dtype: return "torch.dtype";
    case Kind::device: return "torch.device";
    case Kind::layout: return "torch.layout";
    case Kind::memory_format: return "torch.memory_format";
    case Kind::string: return "str";
    case Kind::generator: return "torch.Generator";
    case Kind::options: return "options";
  }
  return "";
}

// --- Defaults ------------------------------------------------------------------------------------

void set_number(Parameter& p, std::string_view text) {
  const std::string digits(text);
  if (text == "True" || text == "False") {
    p.scalar = text == "True";
  } else if (text.find_first_of(".en") != std::string_view::npos) {
    p.scalar = text == "inf" ? HUGE_VAL : text == "-inf" ? -HUGE_VAL : std::stod(digits);
  } else {
    p.scalar = static_cast<int64_t>(std::stoll(digits));
  }
}

void set_default(Parameter& p, std::string_view text) {
  p.fallback.given = text != "None";
  if (!p.fallback.given) {
    p.nullable = true;
    return;
  }
  switch (p.kind) {
    case Kind::integer: p.fallback.integer = std::stoll(std::string(text)); break;
    case Kind::real: {
      set_number(p, text);
      p.fallback.real = p.scalar.to_double();
      break;
    }
    case Kind::boolean: p.fallback.flag = text == "True"; break;
    case Kind::scalar: set_number(p, text); break;
    case Kind::operand: {
      set_number(p, text);
      p.operand = std::make_unique<Operand>(p.scalar);
      break;
    }
    case Kind::string: p.string = text.substr(1, text.size() - 2); break;
    case Kind::ints: {
      if (text.front() == '(' || text.front() == '[') text = text.substr(1, text.size() - 2);
      for (const std::string_view item : split(text)) {
        p.ints.push_back(std::stoll(std::string(item)));
      }
      break;
    }
    case Kind::memory_format:
      p.fallback.code =
          static_cast<uint8_t>(text == "torch.contiguous_format" ? MemoryFormat::contiguous
                               : text == "torch.channels_last"   ? MemoryFormat::channels_last
                                                                 : MemoryFormat::preserve);
      break;
    case Kind::layout: p.fallback.code = static_cast<uint8_t>(Layout::strided); break;
    default:
      fail<RuntimeError>("signature: no default '{}' for a {}", std::string(text),
                         kind_name(p.kind));
  }
}

// Pointers into the parameter itself, once it has its final place.
void link_default(Parameter& p) {
  if (!p.fallback.given) return;
  if (p.kind == Kind::scalar) p.fallback.scalar = &p.scalar;
  if (p.kind == Kind::operand) p.fallback.operand = p.operand.get();
  if (p.kind == Kind::ints) p.fallback.span = {p.ints.data(), p.ints.size()};
  if (p.kind == Kind::string) p.fallback.span = {p.string.data(), p.string.size()};
}

// --- Overloads -----------------------------------------------------------------------------------

bool names_dim(std::string_view name) {
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  return name == "axis" || name == "dims" || name == "dimension" || name.ends_with("dim");
}

Parameter read_parameter(std::string_view item, Kind kind, bool nullable, bool keyword_only) {
  Parameter p;
  p.kind = kind;
  p.nullable = nullable;
  p.keyword_only = keyword_only;
  if (item.starts_with("*")) {
    p.takes_rest = true;
    item.remove_prefix(1);
  }
  const size_t equals = item.find('=');
  p.name = trim(item.substr(0, equals));
  p.required = equals == std::string_view::npos;
  // One int does for all dimensions of a stride or for a list of dims, but it is no size.
  const bool whole_list = p.name == "size" || p.name == "normalized_shape" ||
                          p.name == "split_sizes" || p.name == "pad";
  p.single_int = kind == Kind::ints && !p.takes_rest && !whole_list;
  p.is_dim = (kind == Kind::integer || kind == Kind::ints) && names_dim(p.name);
  p.is_size = kind == Kind::ints && (p.name == "size" || p.name == "shape");
  if (!p.required) set_default(p, trim(item.substr(equals + 1)));
  return p;
}

std::string describe(const std::vector<Parameter>& parameters) {
  std::string text = "(";
  bool keyword_only = false;
  for (const Parameter& p : parameters) {
    if (text.size() > 1) text += ", ";
    if (p.keyword_only && !keyword_only) {
      keyword_only = true;
      text += "*, ";
    }
    if (p.kind == Kind::options) {
      text +=
          "torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
          "bool pin_memory = False, bool requires_grad = False";
      continue;
    }
    text += std::string(kind_name(p.kind)) + " " + p.name;
    if (!p.required && !p.fallback.given) text += " = None";
  }
  return text + ")";
}

Overload read_overload(const OpDef* op) {
  Overload overload{op, {}, 0, {}, {}, {}};
  const std::string_view text(op->signature);
  const size_t open = text.find('(');
  // "name(", "name.overload/overload(" or "name.operator.overload("
  size_t begin = std::min(text.find('.'), open) + 1;
  std::string other;
  if (const size_t dot = text.find('.', begin); dot < open) {
    other = text.substr(begin, dot + 1 - begin);
    begin = dot + 1;
  }
  while (begin < open) {
    const size_t end = std::min(text.find('/', begin), open);
    overload.overloads.push_back(other + std::string(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  size_t close = open, depth = 0;
  for (; close < text.size(); ++close) {
    if (text[close] == '(') ++depth;
    if (text[close] == ')' && --depth == 0) break;
  }
  bool keyword_only = false;
  int at = 0;
  for (std::string_view item : split(text.substr(open + 1, close - open - 1))) {
    if (item == "*") {
      keyword_only = true;
      continue;
    }
    const bool options = item.starts_with("**");
    if (options) item.remove_prefix(2);
    Parameter p = read_parameter(item, op->kinds[at], op->nullable[at], keyword_only || options);
    if (options) p.required = false;
    overload.parameters.push_back(std::move(p));
    ++at;
  }
  for (Parameter& p : overload.parameters) {
    link_default(p);
    if (!p.keyword_only) ++overload.positional;
  }
  const size_t arrow = text.find("->", close);
  if (arrow != std::string_view::npos) {
    std::string_view names = trim(text.substr(arrow + 2));
    if (names.starts_with("(")) {
      for (const std::string_view name : split(names.substr(1, names.size() - 2))) {
        overload.results.emplace_back(name);
      }
    }
  }
  overload.text = describe(overload.parameters);
  return overload;
}

bool first_is_self(const Overload& overload) {
  if (overload.parameters.empty()) return false;
  const Parameter& first = overload.parameters[0];
  const bool tensor = first.kind == Kind::tensor || first.kind == Kind::operand;
  return tensor && (first.name == "input" || first.name == "self");
}

// --- Families ------------------------------------------------------------------------------------

void enter(Family& into, const OpDef* op) {
  if (op->flags & OpDef::out_form) {
    if (into.has(OpDef::no_out) && !into.takes_out) return;
    into.out_forms.push_back(read_overload(op));
    return;
  }
  into.overloads.push_back(read_overload(op));
  // x.view(2, 3) and zeros(2, 3), but reshape(x, (2, 3)): integers one by one come first.
  std::vector<Parameter>& parameters = into.overloads.back().parameters;
  for (size_t i = into.is_method ? 2 : 1; i < parameters.size(); ++i) {
    if (parameters[i].kind == Kind::ints) parameters[i].takes_rest = false;
  }
  if (into.doc.empty()) into.doc = op->doc;
  const bool makes_tensors = op->returns == Result::Form::tensor ||
                             op->returns == Result::Form::tuple ||
                             op->returns == Result::Form::list;
  const bool writes_self = into.name.ends_with('_');
  into.takes_out |= makes_tensors && !writes_self && !op->has(OpDef::makes_view | OpDef::no_out);
  into.flags |= op->flags;
}

uint8_t taken_by(const Family& family) {
  uint8_t takes = 0;
  if (family.has(OpDef::takes_pending | OpDef::makes_view)) takes |= Pending::resolvable;
  if (family.has(OpDef::takes_sparse)) takes |= Pending::sparse;
  return takes;
}

struct Families {
  std::vector<std::unique_ptr<Family>> all;
  std::unordered_map<std::string_view, Family*> functions, methods;

  Family& named(const std::string& name, bool method) {
    auto& map = method ? methods : functions;
    const auto found = map.find(name);
    if (found != map.end()) return *found->second;
    all.push_back(std::make_unique<Family>());
    Family& made = *all.back();
    made.name = name;
    made.is_method = method;
    map.emplace(made.name, &made);
    return made;
  }

  void enter_inplace(const std::string& name, const OpDef* op) {
    for (const bool method : {true, false}) {
      Family& family = named(name, method);
      family.inplace_by_copy = true;
      enter(family, op);
    }
  }

  Families() {
    for (const OpDef* op : all_ops()) {
      const std::string name(op_name_of(*op));
      const bool has_self = first_is_self(read_overload(op));
      if (!(op->flags & OpDef::method_only)) enter(named(name, false), op);
      if (!(op->flags & OpDef::function_only) && has_self) enter(named(name, true), op);
      if (op->flags & OpDef::has_inplace) {
        enter_inplace(name + "_", op);
      } else if ((op->flags & OpDef::method_only) && name.back() == '_' && name[0] != '_' &&
                 has_self) {
        enter(named(name, false), op);  // torch.relu_(x) and the like
      }
    }
    for (const auto& family : all) {
      family->takes = taken_by(*family);
      const std::string& name = family->name;
      family->writes_self =
          !family->inplace_by_copy && name.ends_with("_") && !name.ends_with("__");
    }
  }
};

const Families& families() {
  static const Families made;
  return made;
}

}  // namespace

// Whether a reduction along dimensions is given none, and keeps none.
static bool reduces_all(const OpCall& call) {
  const std::vector<Parameter>& parameters = call.overload.parameters;
  if (parameters.size() < 3 || parameters[1].kind != Kind::ints) return false;
  const Value& dims = call.values[1];
  const bool keeps = parameters[2].kind == Kind::boolean && call.values[2].flag;
  return (!dims.given || dims.span.size == 0) && !keeps;
}

// Whether something that can only be named is not as usual: stable=True, rounding_mode="floor".
static bool is_named(const OpCall& call) {
  const std::vector<Parameter>& parameters = call.overload.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].keyword_only) continue;
    const Value &value = call.values[i], &usual = parameters[i].fallback;
    if (value.given != usual.given) return true;
    if (parameters[i].kind == Kind::boolean && value.flag != usual.flag) return true;
  }
  return false;
}

std::string overload_name(const OpCall& call) {
  if (call.has_out) return "out";
  const OpDef& op = call.op();
  size_t kind = 0;  // of operands: only tensors, a number behind, a number first
  bool has_operand = false;
  for (int i = 0; i < op.arity; ++i) {
    if (op.kinds[i] != Kind::operand) continue;
    has_operand = true;
    if (!call.values[i].operand->is_tensor() && kind == 0) kind = i == 0 ? 2 : 1;
  }
  const std::vector<std::string>& names = call.overload.overloads;
  const bool wraps = call.family.has(OpDef::wraps_numbers);
  if (!has_operand || wraps) kind = names.size() > 1 && is_named(call) ? 1 : 0;
  if (!names.empty()) {
    std::string name = names[std::min(kind, names.size() - 1)];
    if (name.starts_with("dim") && reduces_all(call)) return "default";
    if (call.family.inplace_by_copy && name.starts_with("Tensor_")) name.erase(0, 7);
    return name;
  }
  if (wraps) return "Tensor";
  constexpr const char* usual[] = {"Tensor", "Scalar", "Scalar_Tensor"};
  return has_operand ? usual[kind] : "default";
}

std::string_view op_name_of(const OpDef& op) { return op_name(op.signature); }

const std::vector<std::unique_ptr<Family>>& all_families() { return families().all; }

const Family* find_family(std::string_view name, bool method) {
  const Families& made = families();
  const auto* preferred = method ? &made.methods : &made.functions;
  const auto* other = method ? &made.functions : &made.methods;
  for (const auto* map : {preferred, other}) {
    const auto found = map->find(name);
    if (found != map->end()) return found->second;
  }
  return nullptr;
}

}  // namespace flambeau
