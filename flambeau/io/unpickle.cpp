#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "flambeau/io/pickle.h"

namespace flambeau::io {
namespace {

using Tag = IValue::Tag;

// Instructions by their letters (see Python's module pickletools).
namespace op {
constexpr uint8_t proto = 0x80, newobj = 0x81, tuple1 = 0x85, tuple2 = 0x86, tuple3 = 0x87,
                  newtrue = 0x88, newfalse = 0x89, long1 = 0x8a, long4 = 0x8b, short_unicode = 0x8c,
                  unicode8 = 0x8d, bytes8 = 0x8e, empty_set = 0x8f, add_items = 0x90,
                  frozenset = 0x91, newobj_ex = 0x92, stack_global = 0x93, memoize = 0x94,
                  frame = 0x95, bytearray8 = 0x96;
}

// Modules of which nothing is loaded, whatever the caller says is safe.
constexpr std::string_view never_safe[] = {"sys", "os", "posix", "nt"};

}  // namespace

Unpickler::Unpickler(std::string_view bytes, UnpickleOptions options)
    : bytes_(bytes), options_(std::move(options)) {}

Unpickler::~Unpickler() {
  stack_.clear();
  memo_.clear();
  // Each is still held by this list, so that no destructor runs into another.
  for (const IValue& value : made_) value.clear();
}

void Unpickler::refuse(std::string_view reason) const {
  fail<UnpicklingError>("Weights only load failed. {}, byte {}: {}", options_.where, begin_,
                        printable(reason));
}

void Unpickler::refuse_end() const {
  fail<TruncatedPickle>("Weights only load failed. {}, byte {}: pickle data was truncated",
                        options_.where, begin_);
}

IValue Unpickler::load() {
  do {
    begin_ = at_;
    ++steps_;
  } while (step(number<uint8_t>()));
  if (stack_.size() != 1 || !marks_.empty()) refuse("the pickle ends with more than one value");
  return stack_.back();
}

bool Unpickler::step(uint8_t code) {
  switch (code) {
    case '.': return false;
    case op::proto: {
      const uint8_t version = number<uint8_t>();
      if (version > 5) refuse(format("unsupported pickle protocol: {}", int{version}));
      return true;
    }
    case op::frame: number<uint64_t>(); return true;
    case 'N': push({}); return true;
    case op::newtrue: push(true); return true;
    case op::newfalse: push(false); return true;
    case '(': marks_.push_back(stack_.size()); return true;
    case '0':
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case '1': popped_items(); return true;
    case '2': push(IValue(top())); return true;
    default:
      if (load_number(code) || load_text(code) || load_container(code) || load_memo(code) ||
          load_object(code)) {
        return true;
      }
      refuse(format("Unsupported operand {}", int{code}));
  }
}

// --- Bytes and the stack -------------------------------------------------------------------------

std::string_view Unpickler::take(size_t bytes) {
  if (bytes > bytes_.size() - at_) refuse_end();
  at_ += bytes;
  return bytes_.substr(at_ - bytes, bytes);
}

template <class T>
T Unpickler::number() {
  T value;
  std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
  return value;
}

std::string_view Unpickler::line() {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) refuse_end();
  const std::string_view text = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return text;
}

IValue& Unpickler::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("the stack is empty");
  return stack_.back();
}

IValue Unpickler::pop() {
  IValue value = std::move(top());
  stack_.pop_back();
  return value;
}

std::vector<IValue> Unpickler::popped_items() {
  if (marks_.empty()) refuse("there is no mark on the stack");
  const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  marks_.pop_back();
  std::vector<IValue> items(std::make_move_iterator(from), std::make_move_iterator(stack_.end()));
  stack_.erase(from, stack_.end());
  return items;
}

IValue Unpickler::made(IValue value) {
  made_.push_back(value);
  return value;
}

// --- Numbers and text ----------------------------------------------------------------------------

// A little-endian two's complement integer of any length.
void Unpickler::long_integer(std::string_view bytes) {
  if (bytes.size() > 8) return push(IValue::of(Tag::BigInt, std::string(bytes)));
  uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;
  for (size_t k = bytes.size(); k-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[k]);
  push(static_cast<int64_t>(value));
}

void Unpickler::decimal(std::string_view digits) {
  if (digits.ends_with('L')) digits.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    refuse("could not convert string to int");
  }
  push(value);
}

bool Unpickler::load_number(uint8_t code) {
  switch (code) {
    case 'K': push(int64_t{number<uint8_t>()}); return true;
    case 'M': push(int64_t{number<uint16_t>()}); return true;
    case 'J': push(int64_t{number<int32_t>()}); return true;
    case op::long1: long_integer(take(number<uint8_t>())); return true;
    case op::long4: {
      const int32_t bytes = number<int32_t>();
      if (bytes < 0) refuse("LONG pickle has negative byte count");
      long_integer(take(static_cast<size_t>(bytes)));
      return true;
    }
    case 'G': {
      const uint64_t bits = __builtin_bswap64(number<uint64_t>());
      double value;
      std::memcpy(&value, &bits, sizeof(value));
      push(value);
      return true;
    }
    case 'F': {
      const std::string text(line());
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      if (text.empty() || *end) refuse("could not convert string to float");
      push(value);
      return true;
    }
    case 'I': {
      const std::string_view text = line();
      if (text == "00" || text == "01") {
        push(text == "01");
      } else {
        decimal(text);
      }
      return true;
    }
    case 'L': decimal(line()); return true;
    default: return false;
  }
}

void Unpickler::python2_text(std::string_view text) {
  if (options_.encoding == Encoding::bytes) {
    return push(IValue::of(Tag::Bytes, std::string(text)));
  }
  if (options_.encoding == Encoding::utf8) return push(std::string(text));
  push(widened(text));
}

bool Unpickler::load_text(uint8_t code) {
  const auto wide = [&] {
    const auto bytes = number<uint64_t>();
    return take(bytes > bytes_.size() ? bytes_.size() + 1 : static_cast<size_t>(bytes));
  };
  switch (code) {
    case 'X': push(std::string(take(number<uint32_t>()))); return true;
    case op::short_unicode: push(std::string(take(number<uint8_t>()))); return true;
    case op::unicode8: push(std::string(wide())); return true;
    case 'V': {
      const std::string_view text = line();
      if (text.find('\\') != std::string_view::npos) refuse("an escaped string is not read");
      push(std::string(text));
      return true;
    }
    case 'B': push(IValue::of(Tag::Bytes, std::string(take(number<uint32_t>())))); return true;
    case 'C': push(IValue::of(Tag::Bytes, std::string(take(number<uint8_t>())))); return true;
    case op::bytes8: push(IValue::of(Tag::Bytes, std::string(wide()))); return true;
    case op::bytearray8: push(IValue::of(Tag::ByteArray, std::string(wide()))); return true;
    case 'T': {
      const auto bytes = number<int32_t>();
      if (bytes < 0) refuse("BINSTRING pickle has negative byte count");
      python2_text(take(static_cast<size_t>(bytes)));
      return true;
    }
    case 'U': python2_text(take(number<uint8_t>())); return true;
    case 'S': {
      std::string_view text = line();
      const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                          (text.front() == '\'' || text.front() == '"');
      if (!quoted || text.find('\\') != std::string_view::npos) {
        refuse("the STRING opcode argument must be quoted and plain");
      }
      python2_text(text.substr(1, text.size() - 2));
      return true;
    }
    default: return false;
  }
}

// --- Containers ----------------------------------------------------------------------------------

bool Unpickler::load_container(uint8_t code) {
  const auto last = [&](size_t count) {
    std::vector<IValue> items(count);
    for (size_t k = count; k-- > 0;) items[k] = pop();
    push(made(IValue::of(Tag::Tuple, std::move(items))));
    return true;
  };
  switch (code) {
    case ')': return last(0);
    case op::tuple1: return last(1);
    case op::tuple2: return last(2);
    case op::tuple3: return last(3);
    case 't': push(made(IValue::of(Tag::Tuple, popped_items()))); return true;
    case ']': push(made(IValue::of(Tag::GenericList, std::vector<IValue>()))); return true;
    case 'l': push(made(IValue::of(Tag::GenericList, popped_items()))); return true;
    case '}': push(made(IValue::dict())); return true;
    case 'd': {
      std::vector<IValue> items = popped_items();
      push(made(IValue::dict()));
      set_items(std::move(items));
      return true;
    }
    case op::empty_set: push(made(IValue::of(Tag::Set, std::vector<IValue>()))); return true;
    case op::frozenset: push(made(IValue::of(Tag::FrozenSet, popped_items()))); return true;
    case 'a': {
      std::vector<IValue> items{pop()};
      append(std::move(items));
      return true;
    }
    case 'e':
    case op::add_items: append(popped_items()); return true;
    case 's': {
      std::vector<IValue> items(2);
      items[1] = pop();
      items[0] = pop();
      set_items(std::move(items));
      return true;
    }
    case 'u': set_items(popped_items()); return true;
    default: return false;
  }
}

void Unpickler::append(std::vector<IValue> items) {
  IValue& target = top();
  std::vector<IValue>* list = nullptr;
  if (target.isList() || target.is(Tag::Set)) {
    list = &target.items();
  } else if (target.isObject()) {
    list = &target.as<ivalue::Object>().appended;
  } else {
    refuse(format("Can only append to lists, but got {}", target.tagKind()));
  }
  list->insert(list->end(), std::make_move_iterator(items.begin()),
               std::make_move_iterator(items.end()));
}

void Unpickler::set_items(std::vector<IValue> items) {
  if (items.size() % 2) refuse("odd number of items for SETITEMS");
  IValue& target = top();
  for (size_t k = 0; k + 1 < items.size(); k += 2) {
    if (target.isGenericDict()) {
      target.pairs().set(items[k], std::move(items[k + 1]));
    } else if (target.isObject()) {
      target.as<ivalue::Object>().set.emplace_back(std::move(items[k]), std::move(items[k + 1]));
    } else {
      refuse(format("Can only set items of dicts, but got {}", target.tagKind()));
    }
  }
}

bool Unpickler::load_memo(uint8_t code) {
  const auto place = [&] {
    const std::string_view text = line();
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) refuse("a memo has no number");
    return value;
  };
  switch (code) {
    case 'q': remember(number<uint8_t>()); return true;
    case 'r': remember(number<uint32_t>()); return true;
    case 'p': remember(place()); return true;
    case op::memoize: remember(memo_.size()); return true;
    case 'h': recall(number<uint8_t>()); return true;
    case 'j': recall(number<uint32_t>()); return true;
    case 'g': recall(place()); return true;
    default: return false;
  }
}

void Unpickler::remember(uint64_t place) {
  // Pickles skip hardly any number; the table never grows beyond the file.
  if (place > steps_) refuse(format("the memo is asked for place {} of {}", place, memo_.size()));
  if (place >= memo_.size()) memo_.resize(place + 1);
  memo_[place] = top();
}

void Unpickler::recall(uint64_t place) {
  if (place >= memo_.size()) refuse(format("Memo value not found at index {}", place));
  push(memo_[place]);
}

// --- Globals and what they make ------------------------------------------------------------------

bool Unpickler::load_object(uint8_t code) {
  switch (code) {
    case 'c': {
      const std::string module(line());
      find_global(module, std::string(line()));
      return true;
    }
    case op::stack_global: {
      const IValue name = pop(), module = pop();
      if (!name.isString() || !module.isString()) refuse("STACK_GLOBAL requires str");
      find_global(module.text(), name.text());
      return true;
    }
    case 'R':
    case op::newobj: {
      const IValue arguments = pop(), function = pop();
      reduce(function, arguments, code == 'R');
      return true;
    }
    case op::newobj_ex: {
      const IValue keywords = pop(), arguments = pop(), function = pop();
      if (!keywords.isGenericDict() || !keywords.pairs().pairs.empty()) {
        refuse("an object is made with keywords");
      }
      reduce(function, arguments, false);
      return true;
    }
    case 'b': build(pop()); return true;
    case 'Q': {
      const IValue id = pop();
      if (!options_.persistent) refuse("there are no storages, but the pickle asks for one");
      push(options_.persistent(id));
      return true;
    }
    default: return false;
  }
}

namespace {

// The name of a global as PyTorch has it: Python 2 and this library have another one for some.
std::string canonical(const std::string& module, const std::string& name) {
  if (module == "__builtin__") return "builtins." + name;
  const std::string_view ours = "flambeau";
  if (module == ours || module.starts_with("flambeau.")) {
    return "torch" + module.substr(ours.size()) + "." + name;
  }
  return module + "." + name;
}

bool enumerator(const std::string& name, IValue& value) {
  if (!name.starts_with("torch.")) return false;
  const std::string_view word = std::string_view(name).substr(6);
  for (int k = 0; k < dtype_count; ++k) {
    const auto dtype = static_cast<DType>(k);
    if (dtype_name(dtype) == word) return value = dtype, true;
  }
  for (int k = 0; k <= static_cast<int>(MemoryFormat::channels_last_3d); ++k) {
    const auto format = static_cast<MemoryFormat>(k);
    if (format_name(format) == name) return value = format, true;
  }
  return false;
}

bool of_scripts(const std::string& name) {
  return name.starts_with("__torch__.") || name.starts_with("torch.jit._pickle.");
}

}  // namespace

void Unpickler::find_global(const std::string& module, const std::string& name) {
  const std::string full = canonical(module, name);
  for (const std::string_view blocked : never_safe) {
    if (module == blocked && !options_.names_only) {
      refuse("Trying to load unsupported GLOBAL " + full + " whose module " + module +
             " is blocked.");
    }
  }
  IValue value;
  if (enumerator(full, value)) return push(value);
  if (rebuilds(full) || is_storage_class(full) || (options_.scripts && of_scripts(full)) ||
      (options_.known && options_.known(full))) {
    return push(IValue::global(full));
  }
  refuse("The file asks for an object that is not known to be safe: Unsupported global: GLOBAL " +
         full +
         " was not an allowed global by default. Please use "
         "`torch.serialization.add_safe_globals([" +
         name + "])` or the `torch.serialization.safe_globals([" + name +
         "])` context manager to allowlist this global if you trust this class/function. Loading "
         "with `weights_only=False` allows all, and lets the file run any code: do it only if you "
         "trust where the file comes from.");
}

void Unpickler::reduce(const IValue& function, const IValue& arguments, bool called) {
  if (!function.is(Tag::Global)) refuse("Trying to call what is no global");
  if (!arguments.is(Tag::Tuple)) refuse("a global is called with arguments that are no tuple");
  const std::string& name = function.text();
  const std::vector<IValue>& given = arguments.items();
  // TorchScript's lists say their type.
  if (options_.scripts && name.starts_with("torch.jit._pickle.")) {
    if (given.empty()) refuse("a list of TorchScript's is empty");
    return push(given[0]);
  }
  bool others = options_.names_only || (options_.known && !rebuilds(name));
  for (const IValue& argument : given) others = others || (options_.known && argument.isObject());
  const bool answered = others && (options_.names_only || options_.known(name));
  if (answered || (options_.scripts && of_scripts(name))) {
    auto object = make_intrusive<ivalue::Object>();
    object->name = name;
    object->arguments = arguments;
    object->called = called;
    return push(made(IValue::object(std::move(object))));
  }
  IValue result;
  bool found = false;
  try {
    found = rebuild(name, given, result);
  } catch (const UnpicklingError&) {
    throw;
  } catch (const Error& error) {
    fail<RuntimeError>("{}, byte {}: {}: {}", options_.where, begin_, name, error.what());
  }
  if (!found) refuse("Trying to call reduce for unrecognized function " + name);
  push(result.compound() ? made(result) : result);
}

void Unpickler::build(const IValue& state) {
  IValue& target = top();
  if (target.isObject()) {
    target.as<ivalue::Object>().state = state;
  } else if (target.is(Tag::OrderedDict) && state.isGenericDict()) {
    target.pairs().attributes = state;
  } else {
    refuse(
        format("Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
               "`add_safe_globals`, but got {}",
               target.tagKind()));
  }
}

// --- Names only ----------------------------------------------------------------------------------

std::vector<std::string> globals_of(std::string_view bytes, const std::string& where) {
  std::vector<std::string> found;
  UnpickleOptions options;
  options.where = where;
  options.names_only = true;
  options.known = [&](const std::string& name) {
    found.push_back(name);
    return true;
  };
  options.persistent = [](const IValue&) { return IValue(); };
  Unpickler unpickler(bytes, options);
  unpickler.load();
  return found;
}

}  // namespace flambeau::io
