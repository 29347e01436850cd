// embedding: rows of a table by index. Linear in the table, so its two functions are each other's
// derivatives.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/sparse/sparse.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

struct Lookup {
  Tensor indices;
  int64_t rows, padding_idx;
  bool scale_by_frequency;
};

Tensor embedding_backward(const Tensor& grad, const Lookup& lookup);

// The adjoint of embedding_backward: rows of what it gave, without the padding row.
Tensor embedding_forward(const Tensor& weight, const Lookup& lookup) {
  Dims shape = lookup.indices.sizes().dims();
  const int64_t width = weight.sizes()[1];
  shape.push_back(width);
  Tensor out = make_tensor(shape, weight.dtype(), weight.device());
  {
    const NoGrad off;
    if (out.numel() != 0 || lookup.indices.numel() != 0) {
      kernels::embedding(weight.device_type(), contiguous(weight), lookup.indices, out);
    }
  }
  return out;
}

Tensor embedding_backward(const Tensor& grad, const Lookup& lookup) {
  const int64_t width = grad.sizes().back();
  Tensor out = make_tensor({lookup.rows, width}, grad.dtype(), grad.device());
  {
    const NoGrad off;
    if (out.numel() != 0) {
      kernels::embedding_backward(grad.device_type(), contiguous(grad), lookup.indices,
                                  lookup.padding_idx, lookup.scale_by_frequency, out);
    }
  }
  if (Record r{"embedding_dense_backward", out, {grad}}) {
    r.wrt(0, [lookup](const Tensor& gg) {
      Tensor result = embedding_forward(gg, lookup);
      const Tensor where_from = unsqueeze(lookup.indices, -1);
      if (lookup.padding_idx >= 0)
        result = masked_fill(result, where_from == lookup.padding_idx, 0.0);
      if (lookup.scale_by_frequency) {
        // How often each index occurs: the gradient of a table of ones.
        const Tensor ones = flambeau::ones(lookup.indices.sizes(), options_of(gg));
        const Lookup plain{lookup.indices, lookup.rows, -1, false};
        const NoGrad off;
        const Tensor counts = embedding_backward(unsqueeze(ones, -1), plain);
        result = result / embedding_forward(counts, plain);
      }
      return result;
    });
  }
  return out;
}

void check_indices(const Tensor& indices) {
  CHECK(indices.dtype() == DType::int64 || indices.dtype() == DType::int32, RuntimeError,
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
        "Long, Int; "
        "but got torch.{}Tensor instead (while checking arguments for embedding)",
        dtype_legacy_name(indices.dtype()));
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx,
                 bool scale_grad_by_freq, bool sparse) {
  REDIRECT(embedding, weight, indices, padding_idx, scale_grad_by_freq, sparse)
  CHECK(weight.dim() > 0 || !weight.requires_grad(), IndexError,
        "embedding: 'weight' must be 2-D, but has no dimensions");
  CHECK(weight.dim() == 2, RuntimeError, "'weight' must be 2-D, got {}-D", weight.dim());
  check_indices(indices);
  CHECK(weight.sizes()[0] > 0 || indices.numel() == 0, RuntimeError,
        "embedding: a table without rows, of shape {}, cannot be indexed", weight.sizes());
  common_device("embedding", {weight, indices});
  const Lookup lookup{contiguous(detach(indices)), weight.sizes()[0], padding_idx,
                      scale_grad_by_freq};
  Tensor out = embedding_forward(weight, lookup);
  if (Record r{"embedding", out, {weight}}) {
    // The indices may be written to later; their version says so.
    r.wrt(0, [lookup, sparse, saved = r.save(lookup.indices)](const Tensor& g) {
      Lookup same = lookup;
      same.indices = saved();
      CHECK(!sparse || !lookup.scale_by_frequency, RuntimeError,
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
      if (sparse) return table_of_rows(same.indices, g, lookup.rows, lookup.padding_idx);
      return embedding_backward(g, same);
    });
  }
  return out;
}
OP_FUNCTION(embedding,
            "embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False)",
            "Rows of weight by index; the row at padding_idx gets no gradient.",
            takes_nested | no_out)

// Rescales rows that are used and longer than max_norm.
static Tensor embedding_renorm_(const Tensor& self, const Tensor& indices, double max_norm,
                                double norm_type) {
  CHECK(self.dim() == 2, RuntimeError, "'weight' must be 2-D, got {}-D", self.dim());
  check_indices(indices);
  common_device("embedding_renorm_", {self, indices});
  const NoGrad off;
  const Lookup lookup{contiguous(indices), self.sizes()[0], -1, false};
  Dims shape = indices.sizes().dims();
  shape.push_back(1);
  const Options real{.dtype = to_real(self.dtype()), .device = self.device()};  // as norms are
  const Tensor uses = embedding_backward(ones(shape, real), lookup);
  const Tensor norms = pow(sum(pow(abs(self), norm_type), IntSpan{-1}, true), 1.0 / norm_type);
  const Tensor too_long = (uses > 0) & (norms > max_norm);
  mul_(self, where(too_long, max_norm / (norms + 1e-7), 1.0));
  return self;
}
OP_METHOD(embedding_renorm_, "embedding_renorm_(self, indices, max_norm, norm_type)",
          "Shortens rows of self that indices name and whose norm is above max_norm, in place.")

namespace {
// Tables of samples are one table, which the indices of each sample point into.
bool batch_embedding(Batching& batch, Result& result) {
  if (!batch.is_batched(0)) {
    batch.use_samples();
    batch.run(result);
    return true;
  }
  const Tensor indices = batch.tensor(1);
  if (batch.integer("padding_idx") >= 0 || batch.flag("scale_grad_by_freq") || batch.flag("sparse"))
    return false;
  const int64_t rows = batch.tensor(0).size(0);
  Dims ones(indices.dim() + 1, 1);
  ones[0] = batch.size();
  const Tensor first = tensor_op("mul", {tensor_op("arange", {batch.size()}), rows});
  const Tensor moved = reshape_to(tensor_op("to", {first, indices.device()}), ones);
  batch.rewrite().set(0, fold_batch(batch.samples(0)));
  batch.rewrite().set(1, tensor_op("add", {batch.whole(1), moved}));
  batch.run(result);
  return true;
}
}  // namespace
BATCH(embedding, batch_embedding)

}  // namespace flambeau
