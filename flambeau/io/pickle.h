// The pickles in PyTorch's files, read and written without Python: a machine that knows tensors,
// containers, numbers and text, and runs nothing. Whatever else a pickle names is refused.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flambeau/io/stream.h"
#include "flambeau/io/value.h"

namespace flambeau::io {

// A pickle that ends early.
struct TruncatedPickle : UnpicklingError {
  using UnpicklingError::UnpicklingError;
};

enum class Encoding : uint8_t { utf8, latin1, bytes };  // of strings that Python 2 wrote

struct UnpickleOptions {
  std::string where;  // for messages: "File model.pt, record data.pkl"
  // The storage (or what else) that a persistent id stands for.
  std::function<IValue(const IValue& id)> persistent;
  // Whether the caller makes objects of a class or function that this library does not know: they
  // are read as ivalue::Object.
  std::function<bool(const std::string& name)> known;
  Encoding encoding = Encoding::utf8;
  bool scripts = false;  // whether objects of TorchScript's classes are read
  bool names_only =
      false;  // whether only `known` is of interest, which is asked of all other names
};

// Reads one pickle from the beginning of some bytes.
class Unpickler {
 public:
  Unpickler(std::string_view bytes, UnpickleOptions options);
  ~Unpickler();  // takes apart what was not released, however deep it is or what holds itself
  Unpickler(const Unpickler&) = delete;
  Unpickler& operator=(const Unpickler&) = delete;

  // Values that die with the unpickler.
  IValue load();
  // The result of load(), to keep: it does not hold itself, and is not too deep to take apart.
  IValue release(const IValue& loaded);
  [[nodiscard]] size_t used() const { return at_; }

 private:
  [[noreturn]] void refuse(std::string_view reason) const;
  [[noreturn]] void refuse_end() const;
  bool step(uint8_t code);  // false at the end
  bool load_number(uint8_t code);
  bool load_text(uint8_t code);
  bool load_container(uint8_t code);
  bool load_memo(uint8_t code);
  bool load_object(uint8_t code);
  std::string_view take(size_t bytes);
  std::string_view line();
  template <class T>
  T number();
  size_t length(size_t bytes);  // that many bytes follow
  void push(IValue value) { stack_.push_back(std::move(value)); }
  IValue pop();
  IValue& top();
  std::vector<IValue> popped_items();  // down to the last mark
  IValue made(IValue value);           // a container, to take apart in the end
  void remember(uint64_t place);
  void recall(uint64_t place);
  void python2_text(std::string_view text);
  void long_integer(std::string_view bytes);
  void decimal(std::string_view digits);
  void find_global(const std::string& module, const std::string& name);
  void reduce(const IValue& function, const IValue& arguments, bool called);
  void append(std::vector<IValue> items);
  void set_items(std::vector<IValue> items);
  void build(const IValue& state);

  std::string_view bytes_;
  size_t at_ = 0, begin_ = 0, steps_ = 0;  // begin_: of the instruction
  UnpickleOptions options_;
  std::vector<IValue> stack_, memo_, made_;
  std::vector<size_t> marks_;
};

std::string layout_name(Layout layout);        // "torch.strided"
std::string format_name(MemoryFormat format);  // "torch.contiguous_format"
std::string widened(std::string_view bytes);   // each a letter, as latin1 has them, in UTF-8

// The names, "module.name", that a pickle asks for.
std::vector<std::string> globals_of(std::string_view bytes, const std::string& where);

// What the globals of PyTorch's tensors make of their arguments; false for other names. The options
// say for which arguments somebody else answers.
bool rebuild(const std::string& name, const std::vector<IValue>& arguments, IValue& result);
bool rebuilds(const std::string& name);
// The dtype of "FloatStorage"; none for another name.
std::optional<DType> dtype_of_storage(std::string_view kind);
bool is_storage_class(std::string_view name);  // "torch.FloatStorage", "torch.storage..."
// The storage class by which files know a dtype; empty for those that are saved as bytes.
std::string storage_class_of(DType dtype);

// Writes a pickle of protocol 2. Storages are written as persistent ids and kept, in the order of
// their keys "0", "1", ...
class Pickler {
 public:
  std::string dump(const IValue& value);
  [[nodiscard]] const std::vector<StoragePtr>& storages() const { return storages_; }
  [[nodiscard]] const std::vector<std::string>& kinds() const { return kinds_; }

 private:
  void save(const IValue& value);
  void save_container(const IValue& value);
  void save_dict(const IValue& value);
  void save_set(const IValue& value, const std::string& key);
  void save_tensor(const IValue& value);
  void save_rebuilt(const Tensor& tensor);
  void save_sparse(const Tensor& tensor);
  void save_object(const ivalue::Object& object);
  void save_storage(const StoragePtr& storage, const std::string& kind, int64_t count);
  void save_items(const std::vector<IValue>& items, char one, char many);
  void save_pairs(const std::vector<std::pair<IValue, IValue>>& pairs);
  void save_bytes(const std::string& bytes);
  void integer(int64_t value);
  void ints(IntSpan values);
  void tuple(size_t count);  // of what was written last; more than three follow a mark
  void string(const std::string& text);
  void global(const std::string& name);
  void empty_hooks();
  void place(char narrow, char wide, uint32_t place);  // of the memo, in a byte or in four
  bool known(const std::string& key);                  // writes what was written before
  void memoize(const std::string& key);
  void put(char code) { out_ += code; }
  template <class T>
  void number(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  std::string out_;
  std::unordered_map<std::string, uint32_t> memo_;
  std::unordered_map<std::string, size_t> keys_;
  std::vector<StoragePtr> storages_;
  std::vector<std::string> kinds_;
  uint32_t count_ = 0;
  int depth_ = 0;
};

constexpr int deepest = 2000;  // containers in one another

}  // namespace flambeau::io
