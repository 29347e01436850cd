// Operators that programs register in C++: a schema, and kernels by dispatch key. Python calls them
// as torch.ops.ns.name; C++ finds them through the Dispatcher. A kernel is kept boxed: it takes its
// arguments from a stack of values and leaves its results there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "flambeau/api/types.h"
#include "flambeau/io/value.h"

namespace flambeau::torch {

using Stack = std::vector<IValue>;
using BoxedKernel = std::function<void(Stack&)>;

// Under their names, as TORCH_LIBRARY_IMPL writes them. A kernel of another key is kept, and never
// called.
// clang-format off
#define FLAMBEAU_DISPATCH_KEYS(_) \
  _(Undefined) _(CPU) _(CUDA) _(Meta) _(MPS) _(XPU) _(HIP) _(XLA) _(MkldnnCPU) \
  _(QuantizedCPU) _(QuantizedCUDA) _(SparseCPU) _(SparseCUDA) _(SparseCsrCPU) \
  _(SparseCsrCUDA) _(NestedTensorCPU) _(NestedTensorCUDA) _(PrivateUse1) _(BackendSelect) \
  _(Python) _(Named) _(Conjugate) _(Negative) _(ADInplaceOrView) _(Functionalize) \
  _(Autograd) _(AutogradCPU) _(AutogradCUDA) _(AutogradMeta) _(AutogradPrivateUse1) \
  _(Autocast) _(AutocastCPU) _(AutocastCUDA) _(AutocastPrivateUse1) _(FuncTorchBatched) \
  _(Batched) _(Tracer) _(CompositeExplicitAutograd) \
  _(CompositeExplicitAutogradNonFunctional) _(CompositeImplicitAutograd) _(CatchAll)
// clang-format on
enum class DispatchKey : uint8_t {
#define FLAMBEAU_KEY(name) name,
  FLAMBEAU_DISPATCH_KEYS(FLAMBEAU_KEY)
#undef FLAMBEAU_KEY
};
const char* toString(DispatchKey key);

// What a program has registered, in order.
struct Registration {
  std::string name;    // ns::op, or ns::op.overload
  std::string schema;  // of a definition: (Tensor x) -> Tensor
  std::string key;     // of a kernel
  std::shared_ptr<const BoxedKernel> kernel;
};

namespace detail {
// All from number `from` on. Raises what went wrong while they were made: code that runs as a
// library is loaded has nobody to tell.
std::vector<Registration> registrations(size_t from);
void call_kernel(const Registration& kernel, Stack& stack);
void add_registration(Registration registration);
void keep_error(const char* where, const std::string& what);
[[noreturn]] void refuse_count(size_t expected, size_t given);

// How a function of this type is called with values: see flambeau/api/library.h.
template <class F>
struct SignatureOf;
template <class T>
struct Results;

}  // namespace detail

// --- Registering ---------------------------------------------------------------------------------

// A kernel of any C++ type.
class CppFunction {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, CppFunction>)
      CppFunction(F&& function)  // NOLINT
      : kernel_(std::make_shared<BoxedKernel>(
            [function = std::decay_t<F>(std::forward<F>(function))](Stack& stack) {
              detail::SignatureOf<std::decay_t<F>>::call(function, stack);
            })),
        schema_(detail::SignatureOf<std::decay_t<F>>::schema()) {}
  static CppFunction makeFallthrough() { return {nullptr, ""}; }
  [[nodiscard]] const std::shared_ptr<const BoxedKernel>& kernel() const { return kernel_; }
  [[nodiscard]] const std::string& schema() const { return schema_; }
  [[nodiscard]] const std::string& key() const { return key_; }

 private:
  friend CppFunction dispatch(DispatchKey key, CppFunction function);
  CppFunction(std::nullptr_t, std::string schema) : schema_(std::move(schema)) {}
  std::shared_ptr<const BoxedKernel> kernel_;  // null: what is registered otherwise
  std::string schema_, key_;
};
inline CppFunction dispatch(DispatchKey key, CppFunction function) {
  function.key_ = toString(key);
  return function;
}
inline CppFunction dispatch(DeviceType type, CppFunction function) {
  return dispatch(type == kCUDA ? DispatchKey::CUDA : DispatchKey::CPU, std::move(function));
}

class CustomClassHolder : public RefCounted {};

enum class AliasAnalysisKind : uint8_t {
  INTERNAL_SPECIAL_CASE,
  CONSERVATIVE,
  FROM_SCHEMA,
  PURE_FUNCTION
};
inline std::string schema(std::string text, AliasAnalysisKind = AliasAnalysisKind::FROM_SCHEMA) {
  return text;
}
enum class Tag : uint8_t {
  core,
  pointwise,
  pt2_compliant_tag,
  needs_fixed_stride_order,
  needs_exact_strides,
  data_dependent_output,
  dynamic_output_shape,
  flexible_layout,
  generated,
  inplace_view,
  nondeterministic_bitwise,
  nondeterministic_seeded,
  view_copy,
  maybe_aliasing_or_mutating
};

// What the body of TORCH_LIBRARY registers with.
class Library {
 public:
  enum Kind : uint8_t { DEF, IMPL, FRAGMENT };
  Library(Kind kind, std::string ns, std::string key) : ns_(std::move(ns)), key_(std::move(key)) {
    static_cast<void>(kind);
  }

  // "name(Tensor x) -> Tensor", or a name alone where the types of the function say the rest.
  Library& def(std::string_view schema, const std::vector<Tag>& tags = {});
  Library& def(std::string_view name_or_schema, const CppFunction& function,
               const std::vector<Tag>& tags = {});
  Library& impl(std::string_view name, const CppFunction& function);
  // Raises: there are no kernels for all operators of a key.
  Library& fallback(const CppFunction& function);
  // Whose shapes Python registers is found when they are registered.
  Library& set_python_module(const char*, const char* = "") { return *this; }
  Library& impl_abstract_pystub(const char*, const char* = "") { return *this; }
  // Raises: classes of TorchScript are none of Python's.
  template <class T>
  struct Class {
    template <class... Args>
    Class& def(Args&&...) {
      return *this;
    }
  };
  template <class T>
  Class<T> class_(const std::string& name) {
    refuse_class(name);
  }

 private:
  [[noreturn]] void refuse_class(const std::string& name) const;
  [[nodiscard]] std::string full(std::string_view name) const;
  std::string ns_, key_;
};

namespace detail {
struct LibraryInit {
  LibraryInit(Library::Kind kind, void (*body)(Library&), const char* ns, const char* key);
};
}  // namespace detail

// The older way: static auto registry = torch::RegisterOperators().op("ns::name", &function).
class RegisterOperators {
 public:
  class Options {
   public:
    Options&& schema(std::string text) && { return schema_ = std::move(text), std::move(*this); }
    template <class F>
    Options&& catchAllKernel(F&& function) && {
      return add("", std::forward<F>(function));
    }
    template <class F>
    Options&& kernel(DispatchKey key, F&& function) && {
      return add(toString(key), std::forward<F>(function));
    }
    Options&& aliasAnalysis(AliasAnalysisKind) && { return std::move(*this); }

   private:
    friend class RegisterOperators;
    Options&& add(std::string key, CppFunction function) {
      kernels_.emplace_back(std::move(key), std::move(function));
      return std::move(*this);
    }
    std::string schema_;
    std::vector<std::pair<std::string, CppFunction>> kernels_;
  };
  static Options options() { return {}; }

  RegisterOperators() = default;
  template <class... Args>
  explicit RegisterOperators(std::string_view schema, Args&&... args) {
    op(schema, std::forward<Args>(args)...);
  }
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Options>) RegisterOperators &&
      op(std::string_view schema, F&& function, const Options& options = {}) && {
    return static_cast<void>(options), add(schema, {{"", CppFunction(std::forward<F>(function))}});
  }
  RegisterOperators&& op(std::string_view schema, const Options& options) && {
    return add(schema, options.kernels_);
  }
  RegisterOperators&& op(const Options& options) && {
    return add(options.schema_, options.kernels_);
  }

 private:
  RegisterOperators&& add(std::string_view schema,
                          const std::vector<std::pair<std::string, CppFunction>>& kernels);
};

// --- Calling -------------------------------------------------------------------------------------

template <class F>
class TypedOperatorHandle;

class OperatorHandle {
 public:
  explicit OperatorHandle(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] const std::string& operator_name() const { return name_; }
  void callBoxed(Stack& stack) const;
  void callBoxed(Stack* stack) const { callBoxed(*stack); }
  template <class F>
  [[nodiscard]] TypedOperatorHandle<F> typed() const {
    return TypedOperatorHandle<F>(*this);
  }

 private:
  std::string name_;
};
template <class R, class... A>
class TypedOperatorHandle<R(A...)> : public OperatorHandle {
 public:
  explicit TypedOperatorHandle(const OperatorHandle& handle) : OperatorHandle(handle) {}
  R call(A... args) const {
    Stack stack;
    (push(stack, args), ...);
    callBoxed(stack);
    if constexpr (std::is_lvalue_reference_v<R>) {
      return std::get<0>(std::forward_as_tuple(args...));  // what is written comes first
    } else {
      return detail::Results<R>::pop(stack);
    }
  }

 private:
  template <class T>
  static void push(Stack& stack, const T& value) {
    if constexpr (requires { value.vec(); }) {
      stack.emplace_back(value.vec());
    } else if constexpr (requires { value->vec(); }) {
      value ? stack.emplace_back(value->vec()) : stack.emplace_back();
    } else {
      stack.emplace_back(value);
    }
  }
};

// Finds operators by their names; calls pick a kernel by the devices of the tensors, one for
// Autograd first where gradients are recorded.
class Dispatcher {
 public:
  static Dispatcher& singleton();
  [[nodiscard]] OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const;
};

}  // namespace flambeau::torch

#define FLAMBEAU_JOIN_(a, b) a##b
#define FLAMBEAU_JOIN(a, b) FLAMBEAU_JOIN_(a, b)
#define FLAMBEAU_LIBRARY(kind, ns, key, m, id)                                                   \
  static void FLAMBEAU_JOIN(flambeau_library_, id)(::flambeau::torch::Library&);                 \
  static const ::flambeau::torch::detail::LibraryInit FLAMBEAU_JOIN(flambeau_library_init_, id)( \
      ::flambeau::torch::Library::kind, &FLAMBEAU_JOIN(flambeau_library_, id), #ns, key);        \
  void FLAMBEAU_JOIN(flambeau_library_, id)([[maybe_unused]] ::flambeau::torch::Library & m)
#define TORCH_LIBRARY(ns, m) FLAMBEAU_LIBRARY(DEF, ns, "", m, ns)
#define TORCH_LIBRARY_FRAGMENT(ns, m) \
  FLAMBEAU_LIBRARY(FRAGMENT, ns, "", m, FLAMBEAU_JOIN(ns##_fragment_, __COUNTER__))
#define TORCH_LIBRARY_IMPL(ns, k, m) \
  FLAMBEAU_LIBRARY(IMPL, ns, #k, m, FLAMBEAU_JOIN(ns##_##k##_, __COUNTER__))
#define TORCH_FN(function) (&function)
#define TORCH_SELECTIVE_NAME(name) name
#define TORCH_SELECTIVE_SCHEMA(schema) schema
