// Node: one step of the backward graph. What its closures capture is what the op saved. The graph
// points from results to what they were made of; nothing points forward, so it dies with its
// last result.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flambeau/base/function.h"
#include "flambeau/base/inline_vector.h"
#include "flambeau/base/intrusive_ptr.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

class Node;
using NodePtr = IntrusivePtr<Node>;

// Where a gradient goes: slot `input` of `node`. An empty edge wants no gradient.
struct Edge {
  NodePtr node;
  uint32_t input = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

// What the engine knows about a gradient that a node receives: that of one forward output.
struct GradMeta {
  Dims sizes;
  DType dtype = DType::float32;
  Device device;
  bool any_dtype = false;  // not cast; see set_grad_dtype
};

// Incoming gradients and the place for outgoing ones while a node runs.
using Grads = InlineVector<Tensor, 2>;

// A rule takes all incoming gradients and writes the outgoing ones; rules for a single input of a
// single-output op are wrapped (see Record::wrt).
using Rule = Function<Tensor(const Tensor& grad)>;
using WholeRule = Function<void(Grads& in, Grads& out)>;

using TensorHook = std::function<Tensor(const Tensor& grad)>;  // undefined result: unchanged
using NodePreHook = std::function<void(Grads& in)>;
using NodePostHook = std::function<void(Grads& out, const Grads& in)>;
using AccumulateHook = std::function<void(const Tensor& variable)>;

// Everything rare about a node, made on demand.
struct NodeExtras {
  struct Keyed {
    uint64_t key;
    uint32_t input;
    TensorHook hook;
  };
  std::vector<Keyed> tensor_hooks;                            // on the gradient of one output
  std::vector<Keyed> retain_hooks;                            // retain_grad(): after all others
  std::vector<std::pair<uint64_t, NodePreHook>> pre_hooks;    // on all of them
  std::vector<std::pair<uint64_t, NodePostHook>> post_hooks;  // after the rule
  std::string forward_trace;                                  // anomaly mode
  std::string name;                                           // of custom functions
  NodePtr parent;                                             // anomaly: made while this ran
  std::shared_ptr<void> python_owner;                         // a custom function's context
  std::shared_ptr<void> metadata;                             // notes of the user, the front end's
};

class Node final : public RefCounted {
 public:
  using WeaklyHeld = void;  // leaf tensors find their accumulator again

  explicit Node(const char* op);
  ~Node();
  static void destroy(Node* node);

  [[nodiscard]] std::string name() const;     // "AddBackward0"
  [[nodiscard]] std::string op_name() const;  // "Add", as messages about tensors call it
  [[nodiscard]] const char* op() const { return op_; }
  void rename(const char* op) { op_ = op; }
  [[nodiscard]] uint64_t sequence() const { return sequence_; }

  [[nodiscard]] bool wants(size_t i) const { return static_cast<bool>(edges[i].node); }
  uint32_t add_input(const Tensor& output);  // the forward output whose gradient comes in next

  void set_rule(uint32_t i, Rule rule);
  void set_whole_rule(WholeRule rule) { whole_rule_ = std::move(rule); }
  // The rules as one, for whoever does something around them.
  WholeRule take_rules();
  // Runs the rules. `out` has one entry per edge.
  void apply(Grads& in, Grads& out);
  // Drops what was saved, if anything was: then applying again is an error.
  void release();
  [[nodiscard]] bool released() const { return released_; }
  void has_saved() { saves_ = true; }  // set by whatever is saved on behalf of the node

  // What those who look at the graph see, where it is made of more steps than PyTorch's: this node
  // under another name, and behind it the inputs of all the steps.
  void show_as(const char* op, InlineVector<Edge, 2> next);
  [[nodiscard]] const InlineVector<Edge, 2>& shown_edges() const {
    return shown_ ? *shown_ : edges;
  }

  NodeExtras& extras();
  [[nodiscard]] NodeExtras* maybe_extras() const { return extras_.get(); }

  InlineVector<Edge, 2> edges;        // one per forward input
  InlineVector<GradMeta, 1> inputs;   // one per forward output
  IntrusivePtr<TensorImpl> variable;  // of the node that accumulates into a leaf
  void* python = nullptr;             // its Python object while one lives (borrowed)
  int64_t stream = 0;                 // the device stream forward ran on

  static uint64_t peek_sequence();
  friend NodePtr accumulator(const Tensor& leaf);

 private:
  static uint64_t next_sequence();

  const char* op_;
  uint64_t sequence_;
  bool released_ = false;
  bool saves_ = false;
  struct Indexed {
    uint32_t index;
    Rule rule;
  };
  InlineVector<Indexed, 2> rules_;
  WholeRule whole_rule_;
  std::unique_ptr<NodeExtras> extras_;
  std::unique_ptr<InlineVector<Edge, 2>> shown_;
};

// The node that a running rule belongs to: outputs saved without history get it back from here.
extern thread_local Node* running_node;

// The accumulator of a leaf, made at the first use and found again while it lives.
NodePtr accumulator(const Tensor& leaf);

}  // namespace flambeau
