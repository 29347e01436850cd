// A tensor kept for the backward pass. Remembers the version it saw; reading it after somebody
// wrote to it raises, naming the op that saved and the op that wrote. An output is kept without
// its history, which it gets back from the running node: so graphs have no cycles.
#pragma once

#include <functional>
#include <vector>

#include "flambeau/autograd/node.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Pack and unpack hooks (saved_tensors_hooks). The packed value belongs to the front end.
struct SavedHooks {
  std::function<std::shared_ptr<void>(const Tensor&)> pack;
  std::function<Tensor(const std::shared_ptr<void>&)> unpack;
};
// The innermost hooks of this thread; null where there are none.
extern thread_local const SavedHooks* saved_hooks;

// While the gradient of a write into a view is taken: the node of the write, and where the history
// of the view begins since, which is that of the written base.
struct WrittenView {
  const Node* node;
  Edge history;
};
extern thread_local const WrittenView* written_view;

// While the body of an op runs on tensors without values (ops/layers/dispatch.cpp): what it saves,
// and how to say afterwards which tensor is meant.
struct SavedShell {
  Tensor shell;
  bool is_output;
  std::function<void(class Saved meant)> resolve;
};
extern thread_local std::vector<SavedShell>* saved_shells;

class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& tensor, bool is_output, Node* node);

  [[nodiscard]] Tensor operator()() const;
  // The value before the write that has just been counted is the one that was meant.
  void expect_earlier_version() { --version_; }
  // A custom function that asks for what it saved gets it, also after detach_().
  void allow_detached() { had_node_ = false; }
  [[nodiscard]] bool defined() const { return tensor_.defined() || packed_; }
  [[nodiscard]] bool is_packed() const { return packed_ != nullptr; }
  [[nodiscard]] bool is_output() const { return is_output_; }
  [[nodiscard]] uint32_t output() const { return output_; }
  [[nodiscard]] const Tensor& unchecked() const { return tensor_; }  // undefined once packed
  // Hands this one tensor to hooks of its own, which the value comes back from.
  void pack(const SavedHooks& hooks);

 private:
  struct Packed;
  [[nodiscard]] Tensor stand_in() const;

  Tensor tensor_;
  uint32_t version_ = 0;
  uint32_t output_ = 0;
  bool is_output_ = false;
  bool had_node_ = false;  // came from a step of the graph, which detach_() must not cut off
  std::shared_ptr<Packed> packed_;
};

// What the rules of a node have captured. Closures do not tell, so the rules are run on gradients
// of zero, and whatever they ask for is noted: what is found stays valid until the node releases
// it. Looking costs one backward pass of the node; it is for those who look into a graph, such as
// programs that draw it.
std::vector<Saved*> find_saved(Node& node);
// The tensor, as the rules of `node` would see it.
Tensor read_saved(Node& node, const Saved& saved);

}  // namespace flambeau
