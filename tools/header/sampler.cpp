#include "tools/header/sampler.h"

#include <algorithm>
#include <random>
#include <set>

#include "flambeau/api/op.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/ops.h"
#include "tools/header/hints.h"
#include "tools/header/samples.h"

namespace flambeau::print {

Value Sample::as(Kind kind) {
  Value value;
  value.given = given;
  value.code = code;
  switch (kind) {
    case Kind::tensor: value.tensor = &tensor; break;
    case Kind::operand:
      operand = is_tensor ? Operand(tensor) : Operand(scalar);
      value.operand = &*operand;
      break;
    case Kind::scalar: value.scalar = &scalar; break;
    case Kind::integer: value.integer = integer; break;
    case Kind::real: value.real = real; break;
    case Kind::boolean: value.flag = integer != 0; break;
    case Kind::ints: value.span = {ints.data(), ints.size()}; break;
    case Kind::reals: value.reals = &reals; break;
    case Kind::tensors: value.tensors = &list; break;
    case Kind::string: value.span = {word.data(), word.size()}; break;
    case Kind::generator: value.generator = nullptr; break;
    case Kind::options: value.options = &options; break;
    case Kind::device: value.device = &device; break;
    default: break;
  }
  return value;
}

namespace {

struct TensorMaker {
  const char* name;
  Tensor (*make)(IntSpan sizes, int shift);
};
constexpr TensorMaker makers[] = {
    {"floats", floats},   {"symmetric", symmetric},     {"integers", integers},
    {"masks", masks},     {"complexes", complexes},     {"narrow_integers", narrow_integers},
    {"doubles", doubles}, {"coordinates", coordinates}, {"compressed_rows", compressed_rows}};
// Only of hints.
constexpr TensorMaker rare_makers[] = {{"unit_integers", unit_integers},
                                       {"bfloats", bfloats},
                                       {"compressed_columns", compressed_columns}};
const TensorMaker& maker_of(std::string_view name) {
  for (const TensorMaker& maker : makers) {
    if (name == maker.name) return maker;
  }
  return *std::ranges::find(rare_makers, name,
                            [](const TensorMaker& m) { return std::string_view(m.name); });
}
const Dims shapes[] = {{3, 3}, {2, 3}, {3},          {2, 3, 3}, {2, 2, 4, 4}, {},
                       {1},    {2},    {2, 2, 3, 3}, {2, 2, 3}, {4},          {2, 2, 4, 4, 4},
                       {2, 2}, {1, 2}, {3, 2},       {4, 3},    {6}};
const Dims int_lists[] = {{1},    {0},    {2, 3},    {2},          {0, 1},    {3, 3},
                          {2, 2}, {1, 1}, {},        {6},          {3},       {-1},
                          {1, 0}, {3, 2}, {2, 3, 3}, {1, 1, 1},    {0, 2, 1}, {2, 2, 2},
                          {4, 4}, {2, 1}, {3, 1},    {2, 2, 4, 4}, {0, 0},    {4}};

std::string text_of(IntSpan ints) {
  std::string text = "{";
  for (const int64_t value : ints) text += (text.size() > 1 ? ", " : "") + std::to_string(value);
  return text + "}";
}
std::string plain_type(std::string type) {
  if (type.starts_with("const ")) type.erase(0, 6);
  if (type.ends_with("&")) type.pop_back();
  return type;
}

// Fills the blocks that new tensors are about to get, so that values nobody wrote show.
void dirty_free_memory(int pattern) {
  std::vector<Tensor> blocks;
  for (int64_t bytes = 64; bytes <= 4096; bytes *= 2) {
    for (int i = 0; i < 8; ++i) {
      blocks.push_back(make_tensor({bytes}, DType::uint8, Device()));
      std::memset(blocks.back().raw(), pattern, static_cast<size_t>(bytes));
    }
  }
}

bool same_values(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a->pending & Pending::valueless) return true;
  const Tensor x = contiguous(resolve(a)), y = contiguous(resolve(b));
  return x.sizes() == y.sizes() && x.dtype() == y.dtype() &&
         (x.numel() == 0 ||
          std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.numel()) * x.item_size()) == 0);
}
bool same_values(const Result& a, const Result& b) {
  return same_values(a.tensor, b.tensor) &&
         std::ranges::equal(a.tensors, b.tensors,
                            [](const Tensor& x, const Tensor& y) { return same_values(x, y); });
}

Result call_form(const CppForm& form, const Samples& samples, const std::vector<Tensor>& outs = {},
                 const Tensor* self = nullptr) {
  const GeneratorPtr& generator = default_generator(Device());
  {
    const std::lock_guard lock(generator->mutex());
    generator->manual_seed(1);
  }
  static const Options no_options;
  std::vector<Value> values(form.overload->parameters.size());
  size_t at = 0;
  for (const Parameter& p : form.overload->parameters) {
    Value& value = values[at++];
    value = p.fallback;
    if (p.kind == Kind::options) value.given = true, value.options = &no_options;
    const auto placed = std::ranges::find(form.parameters, &p, &CppParameter::from);
    if (placed != form.parameters.end()) {
      const auto i = static_cast<size_t>(placed - form.parameters.begin()) + form.is_method();
      if (i < samples.size()) value = samples[i]->as(p.kind);
    } else if (form.direct() && p.name == "out") {
      value.given = true;
      value.tensor = outs.data();
    } else if (!form.leaves_out(p)) {
      value = samples[0]->as(p.kind);
    }
  }
  if (self) values[0].tensor = self;
  const torch::Op op(form.family->name.c_str(), form.index, form.overload->op->signature,
                     form.is_method());
  const bool tuple = !outs.empty() && form.returns() != Result::Form::tensor && !form.direct();
  return op.call(values.data(), outs.empty() ? nullptr : outs.data(), outs.size(), tuple);
}

std::vector<Tensor> outs_for(const Result& result) {
  std::vector<Tensor> outs;
  if (result.form == Result::Form::tensor) {
    outs.push_back(make_tensor({0}, result.tensor.dtype(), Device()));
  }
  for (const Tensor& tensor : result.tensors) {
    outs.push_back(make_tensor({0}, tensor.dtype(), Device()));
  }
  return outs;
}

}  // namespace

// One choice of all arguments.
struct Sampler::Trial {
  const std::string& op;
  std::mt19937& random;
  const std::vector<std::string>& words;
  const TensorMaker* maker;  // most tensors of a call have something in common
  const Dims* shape;
  bool wild;  // not all of them have
  int tensors = 0;

  [[nodiscard]] size_t draw(size_t n) { return random() % n; }
  template <class T, size_t n>
  const T& any(const T (&from)[n]) {
    return from[draw(n)];
  }
  Tensor tensor(std::string& text) {
    const TensorMaker& make = wild && draw(3) == 0 ? any(makers) : *maker;
    return tensor(make, wild ? related() : *shape, text);
  }
  Tensor tensor(const TensorMaker& make, const Dims& sizes, std::string& text) {
    text = std::string(make.name) + "(" + text_of(sizes) + ", " + std::to_string(tensors) + ")";
    return make.make(sizes, tensors++);
  }
  // The common shape, what is left of it without a dimension, or another.
  Dims related() {
    const size_t which = draw(10);
    if (which < 5 || (which < 8 && shape->empty())) return *shape;
    if (which == 5) return {shape->begin(), shape->end() - 1};
    if (which == 6) return {shape->begin() + 1, shape->end()};
    if (which == 7) return {shape->end() - 1, shape->end()};
    return any(shapes);
  }
  void number(Sample& s, std::string& text) {
    static constexpr double numbers[] = {1, 2, 0.5, 0, 3};
    const double value = any(numbers);
    const bool whole = value != 0.5 && draw(2) == 0;
    s.scalar = whole ? Scalar(static_cast<int64_t>(value)) : Scalar(value);
    text = whole ? std::to_string(static_cast<int64_t>(value)) : std::to_string(value);
  }
  std::unique_ptr<Sample> operator()(const Parameter& p, const std::string& type) {
    auto made = std::make_unique<Sample>();
    std::string text;
    if (const Hint* hint = hint_for(op, p.name)) {
      fill(*made, p.kind, *hint, text);
    } else {
      fill(*made, p.kind, text);
    }
    const bool bare = made->is_tensor || p.kind == Kind::generator;
    made->text = bare ? text : plain_type(type) + "(" + text + ")";
    return made;
  }
  void fill(Sample& s, Kind kind, const Hint& hint, std::string& text) {
    const auto list = [&](std::string item = {}) {
      for (const auto& [name, sizes] : hint.tensors) {
        s.list.push_back(tensor(maker_of(name), sizes, item));
        text += (text.empty() ? "{" : ", ") + item;
      }
      if (!text.empty()) text += "}";
    };
    switch (kind) {
      case Kind::tensor:
      case Kind::operand:
        s.is_tensor = true;
        s.tensor = tensor(maker_of(hint.tensors.at(0).maker), hint.tensors[0].sizes, text);
        return;
      case Kind::tensors: return list();
      case Kind::ints:
        s.ints = hint.ints;
        text = text_of(s.ints);
        return;
      case Kind::layout:
        s.code = static_cast<uint8_t>(Layout::sparse_csr);
        text = "Layout::" + std::string(hint.word);
        return;
      default:
        s.integer = hint.ints[0];
        s.real = static_cast<double>(s.integer);
        text = kind == Kind::boolean ? (s.integer ? "true" : "false") : std::to_string(s.integer);
    }
  }
  void fill(Sample& s, Kind kind, std::string& text) {
    static constexpr int64_t integers[] = {0, 1, 2, 3, -1, 4, 6};
    static constexpr double reals[] = {0.5, 1.0, 0.0, 2.0, 0.25};
    switch (kind) {
      case Kind::operand:
        if (wild && draw(4) == 0) return number(s, text);
        [[fallthrough]];
      case Kind::tensor:
        s.is_tensor = true;
        s.tensor = tensor(text);
        return;
      case Kind::scalar: return number(s, text);
      case Kind::integer:
        s.integer = any(integers);
        text = std::to_string(s.integer);
        return;
      case Kind::real:
        s.real = any(reals);
        text = std::to_string(s.real);
        return;
      case Kind::boolean:
        s.integer = static_cast<int64_t>(draw(2));
        text = s.integer ? "true" : "false";
        return;
      case Kind::ints:
        s.ints = any(int_lists);
        text = text_of(s.ints);
        return;
      case Kind::reals:
        s.reals = {0.5, 2.0};
        if (draw(2)) s.reals.clear();
        text = s.reals.empty() ? "{}" : "{0.5, 2.0}";
        return;
      case Kind::tensors:
        for (size_t n = 1 + draw(4); n-- > 0;) {
          std::string item;
          s.list.push_back(tensor(item));
          text += (text.empty() ? "{" : ", ") + item;
        }
        text += "}";
        return;
      default: return fill_word(s, kind, text);
    }
  }
  void fill_word(Sample& s, Kind kind, std::string& text) {
    static constexpr std::pair<DType, const char*> dtypes[] = {{DType::float32, "DType::float32"},
                                                               {DType::float64, "DType::float64"},
                                                               {DType::int64, "DType::int64"}};
    switch (kind) {
      case Kind::string:
        s.word = words[draw(words.size())];
        text = "\"" + s.word + "\"";
        return;
      case Kind::dtype: {
        const auto& [dtype, name] = any(dtypes);
        s.code = static_cast<uint8_t>(dtype);
        text = name;
        return;
      }
      case Kind::layout:
        s.code = static_cast<uint8_t>(Layout::strided);
        text = "Layout::strided";
        return;
      case Kind::memory_format:
        s.code = static_cast<uint8_t>(MemoryFormat::contiguous);
        text = "MemoryFormat::contiguous";
        return;
      case Kind::generator:
        s.given = false;
        text = "nullopt";
        return;
      case Kind::device: s.given = false; return;
      default: return;
    }
  }
};

namespace {

// What the signature says where nothing is given.
std::unique_ptr<Sample> default_sample(const Parameter& p, const std::string& type,
                                       const std::string& text) {
  auto made = std::make_unique<Sample>();
  made->given = p.fallback.given || p.kind == Kind::options;
  made->text =
      text == "nullptr" ? text : plain_type(type) + (text == "{}" ? "()" : "(" + text + ")");
  made->scalar = p.scalar;
  made->ints = p.ints;
  made->word = p.string;
  made->code = p.fallback.code;
  made->integer = p.kind == Kind::boolean ? p.fallback.flag : p.fallback.integer;
  if (p.kind == Kind::real) made->real = p.fallback.real;
  return made;
}

}  // namespace

Sampler::Sampler(const std::vector<CppForm>& forms)
    : words_{"sum", "mean", "floor", "amax", "ij,jk->ik"} {
  std::set<std::string> words;
  for (const CppForm& form : forms) {
    if (form.way == Way::function) functions_.emplace(form.name, &form);
    for (const Parameter& p : form.overload->parameters) {
      if (p.kind == Kind::string && !p.string.empty()) words.insert(p.string);
    }
  }
  words_.insert(words_.end(), words.begin(), words.end());
}

const CppForm* Sampler::base_of(const CppForm& form) const {
  std::string name = form.name;
  if (form.writes_self()) name.pop_back();
  if (form.way == Way::out) name.resize(name.size() - 4);
  const size_t n = form.parameters.size() + form.is_method();
  const auto [begin, end] = functions_.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    const CppForm& base = *it->second;
    if (&base == &form || n > base.parameters.size() || static_cast<int>(n) < base.required())
      continue;
    bool fits = true;
    for (size_t i = 0; i < n && fits; ++i) {
      const CppParameter& there = base.parameters[i];
      if (i == 0 && (form.is_method() || form.writes_self())) {
        fits = there.type == "const Tensor&" || there.type == "const Operand&";
      } else {
        const CppParameter& here = form.parameters[i - form.is_method()];
        fits = here.type == there.type && here.name == there.name;
      }
    }
    if (fits) return &base;
  }
  return nullptr;
}

bool Sampler::works(const CppForm& form, const CppForm* base, Found& found) const {
  try {
    const auto run = [&] {
      if (base) return call_form(*base, found.samples);
      if (!form.writes_self()) return call_form(form, found.samples);
      const Tensor self = clone(found.samples[0]->tensor);
      return call_form(form, found.samples, {}, &self);
    };
    dirty_free_memory(0x11);
    const Result first = run();
    dirty_free_memory(0x22);
    const Result second = run();
    found.has_values = same_values(first, second);
    if (form.writes_self() && base) {
      const Tensor self = clone(found.samples[0]->tensor);
      static_cast<void>(call_form(form, found.samples, {}, &self));
    } else if (form.way == Way::out) {
      if (first.form == Result::Form::tensor && !first.tensor.defined()) return false;
      static_cast<void>(call_form(form, found.samples, outs_for(first)));
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::optional<Found> Sampler::find(const CppForm& form) {
  constexpr size_t n_makers = std::size(makers), n_shapes = std::size(shapes);
  constexpr int trials = 4000;
  std::mt19937 random(1);
  const CppForm* base = base_of(form);
  for (int i = 0; i < trials; ++i) {
    // At first all tensors alike and the rest as the signature has it, then anything.
    const auto turn = static_cast<size_t>(i);
    const bool wild = turn >= 2 * n_makers * n_shapes;
    const size_t maker = wild && random() % 2 ? 0 : turn / n_shapes % n_makers;
    Trial trial{form.family->name, random, words_, &makers[maker], &shapes[turn % n_shapes], wild};
    Found found;
    if (form.is_method()) found.samples.push_back(trial(form.overload->parameters[0], ""));
    for (const CppParameter& p : form.parameters) {
      const bool choose = p.from->required || hint_for(form.family->name, p.from->name) ||
                          (trial.wild && trial.draw(3) == 0);
      found.samples.push_back(choose ? trial(*p.from, p.type)
                                     : default_sample(*p.from, p.type, p.unset));
    }
    if (form.is_method() && !found.samples[0]->is_tensor) continue;
    if (works(form, base, found)) return found;
  }
  return std::nullopt;
}

}  // namespace flambeau::print
