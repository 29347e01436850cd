// Subscripts: what stands in the brackets of x[1, :, mask] for Python, and in the braces of
// x.index({1, Slice(), mask}) for C++. Integers, slices, None and the ellipsis are views, applied
// as they are read; masks and tensors of indices go to one index op.
#pragma once

#include <vector>

#include "flambeau/tensor/tensor.h"

namespace flambeau {

class Subscript {
 public:
  // What is read through a slice alone is a view; what is written through one of everything is
  // self.
  enum class Purpose : uint8_t { read, write };
  // `used` dimensions of self are spoken of by `items` items.
  Subscript(const Tensor& self, int64_t used, int64_t items, Purpose purpose);
  // How many dimensions a tensor among the items speaks of.
  static int64_t uses(const Tensor& index);

  void add_integer(int64_t index);
  void add_slice(int64_t start, int64_t stop, int64_t step);
  void add_none();
  void add_ellipsis();
  void add_bool(bool keep);  // a dimension of size one, of which all or nothing is kept
  void add_tensor(const Tensor& index) { add_tensor(index, uses(index)); }
  void add_tensor(const Tensor& index, int64_t used);

  [[nodiscard]] Tensor read();
  void write(const Tensor& value);
  void fill(const Scalar& value);  // where there is no tensor of indices

  [[nodiscard]] const Tensor& view() const { return view_; }
  // In the order of dimensions; undefined where there is none.
  [[nodiscard]] const std::vector<Tensor>& indices() const { return indices_; }
  [[nodiscard]] bool has_index() const { return any_index_; }
  // Raises unless a mask that comes first has the shape of what it picks from.
  void check_first_mask() const;

 private:
  void add_index(Tensor index);

  const Tensor& self_;
  Tensor view_;
  std::vector<Tensor> indices_;
  bool any_index_ = false, keeps_slices_;
  int64_t covered_ = 0;  // dimensions of the view that `indices_` speak of: a mask, of several
  int64_t dim_ = 0;      // of the view, the next
  int64_t from_ = 0;     // of self, the next
  int64_t skipped_;      // by the ellipsis
};

// What stands right of the equals sign where a view stands left of it.
void assign_to_view(const Tensor& target, const Tensor& value);

}  // namespace flambeau
