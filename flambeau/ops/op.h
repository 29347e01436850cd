// The op registry. OP(function, "name(input, dim, *, dtype=None)", "What it does.") makes a C++
// function known to every front end: types come from the function, names and defaults from the
// signature, and a mismatch in their number does not compile.
//
// In a signature: `*size` takes integers one by one or as a sequence; `*` alone starts keyword-only
// arguments; `**options` stands for dtype, layout, device, pin_memory and requires_grad;
// `-> (values, indices)` names the results.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "flambeau/tensor/generator.h"
#include "flambeau/tensor/tensor.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

// What creation ops take by keyword.
struct Options {
  std::optional<DType> dtype;
  std::optional<Device> device;
  Layout layout = Layout::strided;
  bool pin_memory = false;
  bool requires_grad = false;

  [[nodiscard]] DType dtype_or(DType other) const { return dtype.value_or(other); }
  [[nodiscard]] Device device_or_default() const { return device ? *device : default_device(); }
};

enum class Kind : uint8_t {
  tensor,   // const Tensor&; undefined for None
  operand,  // const Operand&: a tensor or a number
  scalar,   // const Scalar&
  integer,  // int64_t
  real,     // double
  boolean,  // bool
  ints,     // IntSpan
  reals,    // const std::vector<double>&
  tensors,  // const std::vector<Tensor>&
  dtype,
  device,
  layout,
  memory_format,
  string,     // std::string_view
  generator,  // Generator*; null for None
  options,    // const Options&
};

// One argument on its way from a front end to a C++ function. Borrows what it points to.
struct Value {
  bool given = false;  // false: None
  bool flag = false;
  uint8_t code = 0;  // dtype, layout, memory format
  union {
    int64_t integer = 0;
    double real;
    const Tensor* tensor;
    const Operand* operand;
    const Scalar* scalar;
    const std::vector<Tensor>* tensors;
    const std::vector<double>* reals;
    const Device* device;
    Generator* generator;
    const Options* options;
    struct {
      const void* begin;
      size_t size;
    } span;
  };
};

// What an op gave back.
struct Result {
  enum class Form : uint8_t {
    none,
    tensor,
    tuple,
    list,
    boolean,
    integer,
    real,
    scalar,
    dtype,
    text
  };
  Form form = Form::none;
  Tensor tensor;
  std::vector<Tensor> tensors;  // of a tuple or a list
  Scalar scalar;
  std::string text;
};

namespace detail {

template <class T>
struct Argument;
#define ARGUMENT(type, kind_, nullable_, expression)                 \
  template <>                                                        \
  struct Argument<type> {                                            \
    static constexpr Kind kind = Kind::kind_;                        \
    static constexpr bool nullable = nullable_;                      \
    static decltype(auto) get(const Value& v) { return expression; } \
  };
inline const Tensor no_tensor;
ARGUMENT(const Tensor&, tensor, false, (v.given ? *v.tensor : no_tensor))
ARGUMENT(const Operand&, operand, false, (*v.operand))
ARGUMENT(const Scalar&, scalar, false, (*v.scalar))
ARGUMENT(const std::optional<Scalar>&, scalar, true,
         (v.given ? std::optional<Scalar>(*v.scalar) : std::nullopt))
ARGUMENT(int64_t, integer, false, (v.integer + 0))
ARGUMENT(std::optional<int64_t>, integer, true,
         (v.given ? std::optional<int64_t>(v.integer) : std::nullopt))
ARGUMENT(double, real, false, (v.real + 0))
ARGUMENT(std::optional<double>, real, true,
         (v.given ? std::optional<double>(v.real) : std::nullopt))
ARGUMENT(bool, boolean, false, (v.flag ? true : false))
ARGUMENT(std::optional<bool>, boolean, true, (v.given ? std::optional<bool>(v.flag) : std::nullopt))
ARGUMENT(IntSpan, ints, false, (IntSpan(static_cast<const int64_t*>(v.span.begin), v.span.size)))
ARGUMENT(std::optional<IntSpan>, ints, true,
         (v.given ? std::optional<IntSpan>(IntSpan(static_cast<const int64_t*>(v.span.begin),
                                                   v.span.size))
                  : std::nullopt))
ARGUMENT(const std::vector<double>&, reals, false, (*v.reals))
ARGUMENT(const std::vector<Tensor>&, tensors, false, (*v.tensors))
ARGUMENT(DType, dtype, false, (static_cast<DType>(v.code)))
ARGUMENT(std::optional<DType>, dtype, true,
         (v.given ? std::optional<DType>(static_cast<DType>(v.code)) : std::nullopt))
ARGUMENT(std::optional<Device>, device, true,
         (v.given ? std::optional<Device>(*v.device) : std::nullopt))
ARGUMENT(Layout, layout, false, (static_cast<Layout>(v.code)))
ARGUMENT(MemoryFormat, memory_format, false, (static_cast<MemoryFormat>(v.code)))
ARGUMENT(std::optional<MemoryFormat>, memory_format, true,
         (v.given ? std::optional<MemoryFormat>(static_cast<MemoryFormat>(v.code)) : std::nullopt))
ARGUMENT(std::string_view, string, false,
         (std::string_view(static_cast<const char*>(v.span.begin), v.span.size)))
ARGUMENT(std::optional<std::string_view>, string, true,
         (v.given ? std::optional<std::string_view>(
                        std::string_view(static_cast<const char*>(v.span.begin), v.span.size))
                  : std::nullopt))
ARGUMENT(Generator*, generator, true, (v.given ? v.generator : nullptr))
ARGUMENT(const Options&, options, false, (*v.options))
#undef ARGUMENT

inline void store(Result& r, Tensor value) {
  r.form = Result::Form::tensor;
  r.tensor = std::move(value);
}
inline void store(Result& r, std::vector<Tensor> value) {
  r.form = Result::Form::list;
  r.tensors = std::move(value);
}
template <class... T>
void store(Result& r, std::tuple<T...> value) {
  static_assert((std::is_same_v<T, Tensor> && ...), "a tuple result holds tensors");
  r.form = Result::Form::tuple;
  std::apply([&](auto&... item) { (r.tensors.push_back(std::move(item)), ...); }, value);
}
// An argument decides which of several forms the result has.
template <class... T>
void store(Result& r, std::variant<T...> value) {
  std::visit([&](auto& form) { store(r, std::move(form)); }, value);
}
inline void store(Result& r, bool value) { r.form = Result::Form::boolean, r.scalar = value; }
inline void store(Result& r, int64_t value) { r.form = Result::Form::integer, r.scalar = value; }
inline void store(Result& r, double value) { r.form = Result::Form::real, r.scalar = value; }
inline void store(Result& r, Scalar value) { r.form = Result::Form::scalar, r.scalar = value; }
inline void store(Result& r, DType value) {
  r.form = Result::Form::dtype, r.scalar = static_cast<int64_t>(value);
}
inline void store(Result& r, std::string value) {
  r.form = Result::Form::text, r.text = std::move(value);
}

// The form in which a C++ result reaches the caller: that of the overload of store that takes it.
template <class R>
consteval Result::Form form_of() {
  using Form = Result::Form;
  if constexpr (std::is_void_v<R>) return Form::none;
  if constexpr (std::is_same_v<R, Tensor>) return Form::tensor;
  if constexpr (std::is_same_v<R, std::vector<Tensor>>) return Form::list;
  if constexpr (std::is_same_v<R, bool>) return Form::boolean;
  if constexpr (std::is_same_v<R, int64_t>) return Form::integer;
  if constexpr (std::is_same_v<R, double>) return Form::real;
  if constexpr (std::is_same_v<R, Scalar>) return Form::scalar;
  if constexpr (std::is_same_v<R, DType>) return Form::dtype;
  if constexpr (std::is_same_v<R, std::string>) return Form::text;
  return Form::tuple;
}
// How many tensors are in the tuple; none known where an argument decides.
template <class R>
constexpr uint8_t tuple_size = 0;
template <class... T>
constexpr uint8_t tuple_size<std::tuple<T...>> = sizeof...(T);

// One per C++ function type, not per op: what keeps the registry cheap to compile.
template <class F>
struct Invoker;
template <class R, class... A>
struct Invoker<R (*)(A...)> {
  static constexpr int arity = sizeof...(A);
  static constexpr Kind kinds[arity + 1] = {Argument<A>::kind..., Kind::tensor};
  static constexpr bool nullable[arity + 1] = {Argument<A>::nullable..., false};
  static constexpr Result::Form returns = form_of<R>();
  static constexpr uint8_t n_results = tuple_size<R>;

  static void call(void (*function)(), const Value* values, Result& result) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      const auto typed = reinterpret_cast<R (*)(A...)>(function);
      if constexpr (std::is_void_v<R>) {
        typed(Argument<A>::get(values[I])...);
      } else {
        store(result, typed(Argument<A>::get(values[I])...));
      }
    }
    (std::index_sequence_for<A...>());
  }
};

// The number of arguments that a signature names.
consteval int signature_arity(const char* text) {
  while (*text && *text != '(') ++text;
  int count = 0, depth = 0;
  bool in_name = false;
  for (; *text; ++text) {
    if (*text == '(') {
      if (depth++ == 0) continue;
    }
    if (*text == ')' && --depth == 0) break;
    if (depth != 1) continue;
    if (*text == ',') {
      in_name = false;
    } else if (*text != ' ' && !in_name) {
      in_name = true;
      const bool bare_star = *text == '*' && (text[1] == ',' || text[1] == ')');
      if (!bare_star) ++count;
    }
  }
  return count;
}

}  // namespace detail

// What is known of an op without knowing its name: flags, one kind and one policy per device, which
// stand behind its doc and are combined by |.
struct OpDef {
  enum Flags : uint64_t {
    plain = 0,
    function_only = 1 << 0,
    method_only = 1 << 1,
    has_inplace = 1 << 2,
    makes_view = 1 << 3,
    out_form = 1 << 4,
    takes_sparse = 1 << 5,   // see Note [Sparse tensors]; of a row: it keeps zero
    linear = 1 << 6,         // of a row: f(a + b) = f(a) + f(b)
    takes_pending = 1 << 7,  // see Note [Pending conjugation]
    gives_bool = 1 << 8,     // results are masks or indices, which have no history
    composed = 1 << 9,       // made of other ops, each of which layers see for themselves
    moves = 1 << 10,         // elements of the input are copied or moved, never computed with

    // What out= may be, for ops without a form that writes there directly.
    casts_out = 1 << 11,       // of any dtype that the result can be cast to; else of the result's
    picks = 1 << 12,           // not an input: elements are read in another order than written
    counts = 1 << 13,          // of any shape with the right number of elements
    tells_count = 1 << 14,     // a warning says that it had another number of elements
    casts_real = 1 << 15,      // of the real counterpart of the dtype that is asked for
    type_error_out = 1 << 16,  // a dtype that the result can't be cast to is a TypeError

    numbers_first = 1 << 17,  // old programs give keyword-only numbers among the tensors
    metadata = 1 << 18,       // answers from shapes, dtypes and marks alone; no values are read
    dynamic_shape = 1 << 19,  // the shape of the result depends on values
    no_out = 1 << 20,         // has no form with out=
    wraps_numbers = 1 << 21,  // to PyTorch's operator a number is a tensor
    dtype_of_out = 1 << 26,   // computed in the dtype of out=, unless another is asked for
    cpp_by_hand = 1 << 27,    // C++ programs have it from flambeau/api, in more forms

    // What becomes of history where out= is given; by default a call with some is refused.
    out_drops = 1 << 22,    // out has none: the op has no derivative
    out_records = 1 << 23,  // the steps are recorded, and the copy into out
    out_fails = 1 << 24,    // out has one that cannot be gone back
    out_repeats = 1 << 25,  // out may be expanded; of a reduction: what shares memory is one

    // How it treats a dimension more in front of its tensors (ops/layers/vmap.cpp).
    elementwise = 1ull << 32,  // an element of the result comes from those at the same index
    reduces = 2ull << 32,      // over `dim`, one or several; over all without one
    along = 3ull << 32,        // each line along `dim` for itself
    batches = 4ull << 32,      // leading dimensions of all operands are batches, and broadcast
    reshapes = 5ull << 32,     // a view, or a copy, that `dim`, `size`, ... describe
    joins = 6ull << 32,        // a list of tensors
    creates = 7ull << 32,      // a tensor like its first; values of others are not read
    draws = 8ull << 32,        // random numbers
    batch_rule = 9ull << 32,   // a function beside the op (BATCH)
    kind_mask = 15ull << 32,

    // What autocast computes it in, by device (ops/layers/autocast.cpp).
    cpu_low = 1ull << 52,        // the low precision that was asked for
    cpu_exact = 2ull << 52,      // float32
    cpu_widest = 3ull << 52,     // the widest dtype among the inputs
    cpu_narrowest = 4ull << 52,  // the narrowest
    cpu_refused = 5ull << 52,    // nothing: it is not safe
    cuda_low = 1ull << 55,
    cuda_exact = 2ull << 55,
    cuda_widest = 3ull << 55,
    cuda_narrowest = 4ull << 55,
    cuda_refused = 5ull << 55,
    // Which tensors of components it takes (flambeau.nested) beyond what its kind says.
    takes_jagged = 1ull << 58,  // of a reduction: of jagged ones, along the ragged dimension too
    takes_nested = 1ull << 59,  // component by component, of those of the strided layout

    converts = 1ull << 31,         // gives the same elements in another dtype or on another device
    takes_quantized = 1ull << 60,  // on the integers of a quantized tensor: it orders or moves them
    keeps_zero = 1ull << 61,       // f(0) = 0, in an op that does not take sparse tensors itself
    foreach = 1ull << 62,          // also of each tensor of a list, as _foreach_name
    in_special = 1ull << 63,       // also in torch.special

    autocast_low = cpu_low | cuda_low,
    autocast_exact = cpu_exact | cuda_exact,
    autocast_widest = cpu_widest | cuda_widest
  };
  // Of an op that `batches`: the dimensions of one sample of each operand, the last one's of the
  // rest.
  static constexpr uint64_t event(uint64_t first, uint64_t second, uint64_t third) {
    return batches | first << 40 | second << 44 | third << 48;
  }
  static constexpr uint64_t event(uint64_t all) { return event(all, all, all); }
  static constexpr uint64_t event(uint64_t first, uint64_t second) {
    return event(first, second, second);
  }
  [[nodiscard]] int event_dims(int i) const {
    return static_cast<int>(flags >> (40 + 4 * (i < 3 ? i : 2)) & 15);
  }

  const char* signature;
  const char* doc;
  void (*function)();
  void (*invoke)(void (*function)(), const Value* values, Result& result);
  const Kind* kinds;
  const bool* nullable;
  int arity;
  Result::Form returns;  // tensors can go to out=, unless they are views
  uint8_t n_results;     // of a tuple, where it always has as many
  uint64_t flags;
  OpDef* next = nullptr;

  [[nodiscard]] bool has(uint64_t any_of) const { return flags & any_of; }
  [[nodiscard]] Flags kind() const { return static_cast<Flags>(flags & kind_mask); }
};

// Every registered op, in an order where overloads of one name keep the order of their file.
const std::vector<const OpDef*>& all_ops();
void register_op(OpDef* op);

struct OpRegistration {
  template <class F>
  OpRegistration(OpDef& def, F function, const char* signature, const char* doc, uint64_t flags) {
    using Call = detail::Invoker<F>;
    def = OpDef{signature,   doc,           reinterpret_cast<void (*)()>(function),
                &Call::call, Call::kinds,   Call::nullable,
                Call::arity, Call::returns, Call::n_results,
                flags};
    register_op(&def);
  }
};

#define FLAMBEAU_JOIN_(a, b) a##b
#define FLAMBEAU_JOIN(a, b) FLAMBEAU_JOIN_(a, b)
// The flags of an op by their bare names, which a class that has them as its own can say.
#define OP_FLAGS(...)                                                \
  static_cast<uint64_t>([] {                                         \
    struct Named : ::flambeau::OpDef {                               \
      enum : uint64_t { value = plain __VA_OPT__(| (__VA_ARGS__)) }; \
    };                                                               \
    return Named::value;                                             \
  }())
#define OP_WITH(flags, function, signature, doc) \
  OP_NUMBERED(__COUNTER__, flags, function, signature, doc)
#define OP_NUMBERED(number, flags, function, signature, doc)                           \
  static_assert(::flambeau::detail::signature_arity(signature) ==                      \
                    ::flambeau::detail::Invoker<decltype(+(function))>::arity,         \
                "the signature and the function differ in their number of arguments"); \
  static ::flambeau::OpDef FLAMBEAU_JOIN(op_def_, number);                             \
  static const ::flambeau::OpRegistration FLAMBEAU_JOIN(op_registration_, number){     \
      FLAMBEAU_JOIN(op_def_, number), +(function), signature, doc, OP_FLAGS(flags)};
// A function, and a method where the first argument is a tensor called input or self. Behind the
// doc may stand flags: OP(function, signature, doc, casts_out | takes_sparse).
#define OP(function, signature, doc, ...) \
  OP_WITH(plain __VA_OPT__(| __VA_ARGS__), function, signature, doc)
#define OP_FUNCTION(function, signature, doc, ...) \
  OP_WITH(function_only __VA_OPT__(| __VA_ARGS__), function, signature, doc)
#define OP_METHOD(function, signature, doc, ...) \
  OP_WITH(method_only __VA_OPT__(| __VA_ARGS__), function, signature, doc)
// Also with an in-place form name_(), which writes the result into input.
#define OP_INPLACE(function, signature, doc, ...) \
  OP_WITH(has_inplace __VA_OPT__(| __VA_ARGS__), function, signature, doc)
// The form with out= as its last argument, where writing there directly saves a copy.
#define OP_OUT(function, signature) OP_WITH(out_form | function_only, function, signature, "")
// The result shares memory with the first argument: no out=.
#define OP_VIEW(function, signature, doc, ...) \
  OP_WITH(makes_view __VA_OPT__(| __VA_ARGS__), function, signature, doc)

}  // namespace flambeau
