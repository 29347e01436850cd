#include "flambeau/autograd/record.h"

#include "flambeau/autograd/engine.h"
#include "flambeau/tensor/batched.h"
#include "flambeau/tensor/side_stream.h"

namespace flambeau {

Record::Record(const char* op, const Tensor& out, const std::vector<Tensor>& inputs)
    : Record(op, &out, 1, std::vector<Ref>(inputs.begin(), inputs.end()).data(), inputs.size(),
             false) {}

Record::Record(const char* op, std::initializer_list<Ref> outs, std::initializer_list<Ref> inputs)
    : Record(op, std::vector<Tensor>(outs.begin(), outs.end()), inputs) {}

Record::Record(const char* op, const std::vector<Tensor>& outs, std::initializer_list<Ref> inputs)
    : Record(op, outs.data(), outs.size(), inputs.begin(), inputs.size(), false) {}

Record Record::in_place(const char* op, const Tensor& self, std::initializer_list<Ref> others) {
  InlineVector<Ref, 4> inputs{std::cref(self)};
  for (const Ref& other : others) inputs.push_back(other);
  return {op, &self, 1, inputs.data(), inputs.size(), true};
}

void Record::start(const char* op, const Tensor* outs, size_t n_outs, const Ref* inputs,
                   size_t n_inputs, bool in_place) {
  if (!in_place && outs[0]->inference) return;  // a view of what takes no part in graphs
  // Whatever forbids the write is raised here, so that finish() has nothing left to raise.
  if (in_place) check_inplace(op, outs[0], true);
  node_ = make_intrusive<Node>(op);
  if (uses_side_streams) node_->stream = current_stream_id(outs[0].device());
  in_place_ = in_place;
  node_->edges.reserve(n_inputs);
  for (size_t i = 0; i < n_inputs; ++i) {
    const Tensor& input = inputs[i];
    if (input.defined() && is_batched(input)) refuse_sparse(op, input);  // what is behind records
    const bool overwritten =
        in_place && input.defined() && input->view_base && input->version == outs[0]->version;
    // A view of what is written to takes part with its history from before the write, which has
    // been counted already; it must ask again after.
    if (i > 0 && overwritten && input->view_version + 1 == input.version()) {
      input->view_version = input.version();
    }
    node_->edges.emplace_back(input.defined() ? gradient_edge(input) : Edge{});
    if (overwritten) input->view_version = input.version() - 1;
  }
  if (anomaly_mode.enabled && anomaly_mode.forward_trace) [[unlikely]] {
    node_->extras().forward_trace = anomaly_mode.forward_trace();
    node_->extras().parent = NodePtr(running_node);
  }
  for (size_t i = 0; i < n_outs; ++i) {
    // Indices beside values take no gradient.
    if (n_outs > 1 && !is_differentiable(outs[i].dtype())) continue;
    const uint32_t place = node_->add_input(outs[i]);
    // What was written to a fresh result while it was made is no write to it.
    if (!in_place && outs[i]->version && outs[i]->version->use_count() == 1) {
      outs[i]->version = nullptr;
    }
    // An in-place op takes over its tensor's history only once its rules are in place.
    if (in_place) {
      outs_.push_back(outs[i]);
    } else if (is_differentiable(outs[i].dtype())) {
      set_history(outs[i], node_, place);
    }
  }
}

Saved Record::save(const Tensor& input) const {
  Saved saved(input, false, node_.get());
  if (in_place_ && input.defined() && input->version && input->version == outs_[0]->version) {
    saved.expect_earlier_version();
  }
  return saved;
}

Saved Record::save_output(const Tensor& output) const { return Saved(output, true, node_.get()); }

void Record::finish() {
  // A write into integers, whatever it was computed from, leaves them without a history.
  if (in_place_ && is_differentiable(outs_[0].dtype())) rebase_history(outs_[0], node_);
}

void show_as_step(const char* op, const Tensor& result, const Tensor* const* inputs, size_t count) {
  const AutogradMeta* meta = result.defined() ? maybe_meta(result) : nullptr;
  if (!meta || !meta->grad_fn || saved_shells) return;
  InlineVector<Edge, 2> edges;
  for (size_t i = 0; i < count; ++i) {
    if (!is_differentiable(inputs[i]->dtype())) continue;
    edges.push_back(gradient_edge(*inputs[i]));
    if (edges[edges.size() - 1].node == meta->grad_fn) return;  // an input, handed through
  }
  meta->grad_fn->show_as(op, std::move(edges));
}

}  // namespace flambeau
