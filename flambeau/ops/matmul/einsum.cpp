// einsum: parses an equation, then contracts operands two at a time by permuting them into batched
// matrix products. tensordot and inner are contractions of two named by dimension numbers.
#include <algorithm>
#include <limits>
#include <numeric>

#include "flambeau/ops/matmul/matmul.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// Labels: A-Z are 0..25, a-z are 26..51, and dimensions behind an ellipsis follow.
using Labels = InlineVector<int, 8>;
constexpr int ellipsis = -1;
constexpr int first_ellipsis_label = 52;
constexpr int label_count = first_ellipsis_label + max_dims;

std::string label_text(int label) {
  return std::string(1, static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26));
}

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
int label_of(char c) { return c <= 'Z' ? c - 'A' : c - 'a' + 26; }

// What the equation says.
struct Equation {
  std::vector<Labels> operands;
  Labels output;
  bool has_output = false;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Equation parse() {
    equation_.operands.emplace_back();
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == ' ') continue;
      if (c == '.') {
        take_ellipsis();
      } else if (c == ',' && !equation_.has_output) {
        equation_.operands.emplace_back();
      } else if (c == '-' && !equation_.has_output && text_.substr(at_, 2) == "->") {
        equation_.has_output = true;
        ++at_;
      } else {
        CHECK(is_letter(c), RuntimeError,
              "einsum(): invalid subscript given at index {} in the equation string, subscripts "
              "must be in [a-zA-Z]",
              at_);
        current().push_back(label_of(c));
      }
    }
    return std::move(equation_);
  }

 private:
  Labels& current() { return equation_.has_output ? equation_.output : equation_.operands.back(); }

  void take_ellipsis() {
    const bool output = equation_.has_output;
    const Labels& labels = current();
    const size_t operand = equation_.operands.size() - 1;
    const bool seen = std::find(labels.begin(), labels.end(), ellipsis) != labels.end();
    if (output) {
      CHECK(!seen, RuntimeError,
            "einsum(): found '.' for output but an ellipsis (...) was already found");
      CHECK(text_.substr(at_, 3) == "...", RuntimeError,
            "einsum(): found '.' for output that is not part of any ellipsis (...)");
    } else {
      CHECK(!seen, RuntimeError,
            "einsum(): found '.' for operand {} for which an ellipsis was already found", operand);
      CHECK(text_.substr(at_, 3) == "...", RuntimeError,
            "einsum(): found '.' for operand {} that is not part of any ellipsis", operand);
    }
    current().push_back(ellipsis);
    at_ += 2;
  }

  std::string_view text_;
  size_t at_ = 0;
  Equation equation_;
};

// An operand on its way: one distinct label for each dimension.
struct Term {
  Tensor tensor;
  Labels labels;

  [[nodiscard]] int find(int label) const {
    const auto* at = std::find(labels.begin(), labels.end(), label);
    return at == labels.end() ? -1 : static_cast<int>(at - labels.begin());
  }
};

// Replaces every ellipsis by labels of its own, aligned at the right.
size_t expand_ellipses(Equation& equation, const std::vector<Tensor>& operands) {
  size_t widest = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Labels& labels = equation.operands[i];
    const int64_t dims = operands[i].dim();
    const bool has_ellipsis = std::find(labels.begin(), labels.end(), ellipsis) != labels.end();
    const int64_t named = static_cast<int64_t>(labels.size()) - (has_ellipsis ? 1 : 0);
    if (has_ellipsis) {
      CHECK(named <= dims, RuntimeError,
            "einsum(): the number of subscripts in the equation ({}) is more than the number of "
            "dimensions ({}) for operand {}",
            named, dims, i);
      widest = std::max<size_t>(widest, dims - named);
    } else {
      CHECK(named == dims, RuntimeError,
            "einsum(): the number of subscripts in the equation ({}) does not match the number of "
            "dimensions ({}) for operand {} and no ellipsis was given",
            named, dims, i);
    }
  }
  const auto expand = [&](Labels& labels, size_t count) {
    Labels expanded;
    for (const int label : labels) {
      if (label != ellipsis) {
        expanded.push_back(label);
        continue;
      }
      for (size_t d = widest - count; d < widest; ++d) {
        expanded.push_back(first_ellipsis_label + static_cast<int>(d));
      }
    }
    labels = expanded;
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    Labels& labels = equation.operands[i];
    expand(labels, operands[i].dim() + 1 - labels.size());
  }
  expand(equation.output, widest);
  return widest;
}

// The labels of a result that the equation does not name: the ellipsis, then what occurs once.
Labels implicit_output(const Equation& equation, size_t ellipsis_dims) {
  int counts[label_count] = {};
  for (const Labels& labels : equation.operands) {
    for (const int label : labels) ++counts[label];
  }
  Labels output;
  for (size_t d = 0; d < ellipsis_dims; ++d) {
    output.push_back(first_ellipsis_label + static_cast<int>(d));
  }
  for (int label = 0; label < first_ellipsis_label; ++label) {
    if (counts[label] == 1) output.push_back(label);
  }
  return output;
}

void check_output(const Equation& equation) {
  bool known[label_count] = {}, seen[label_count] = {};
  for (const Labels& labels : equation.operands) {
    for (const int label : labels) known[label] = true;
  }
  for (const int label : equation.output) {
    if (label >= first_ellipsis_label) continue;
    CHECK(!seen[label], RuntimeError,
          "einsum(): output subscript {} appears more than once in the output", label_text(label));
    CHECK(known[label], RuntimeError,
          "einsum(): output subscript {} does not appear in the equation for any input operand",
          label_text(label));
    seen[label] = true;
  }
}

// Repeated labels of one operand name its diagonal.
Term take_diagonals(const Tensor& operand, const Labels& labels, size_t index) {
  Term term{operand, {}};
  for (const int label : labels) {
    const int before = term.find(label);
    const auto here = static_cast<int64_t>(term.labels.size());
    if (before < 0) {
      term.labels.push_back(label);
      continue;
    }
    const int64_t first = term.tensor.sizes()[before], second = term.tensor.sizes()[here];
    CHECK(first == second, RuntimeError,
          "einsum(): subscript {} is repeated for operand {} but the sizes don't match, {} != {}",
          label_text(label), index, second, first);
    // The diagonal comes last; it belongs where the label was first.
    const Tensor moved = diagonal(term.tensor, 0, before, here);
    Dims order;
    for (int64_t d = 0; d + 1 < moved.dim(); ++d) {
      if (d == before) order.push_back(moved.dim() - 1);
      order.push_back(d);
    }
    if (static_cast<int64_t>(order.size()) < moved.dim()) order.push_back(moved.dim() - 1);
    term.tensor = permute(moved, order);
  }
  return term;
}

// Checks the sizes of labels against each other, and drops dimensions of size 1 that stand for
// larger ones: whoever has the larger one has it alone.
void unite_sizes(std::vector<Term>& terms, int64_t* sizes) {
  std::fill_n(sizes, label_count, 1);
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t d = 0; d < terms[i].labels.size(); ++d) {
      const int label = terms[i].labels[d];
      const int64_t size = terms[i].tensor.sizes()[d];
      if (size == 1 || size == sizes[label]) continue;
      if (label >= first_ellipsis_label) {
        CHECK(sizes[label] == 1, RuntimeError,
              "einsum(): dimension {} covered by ellipsis in operand {} has size {} which does not "
              "broadcast with previously seen ellipsis with size {} for the respective dimension",
              label - first_ellipsis_label, i, size, sizes[label]);
      } else {
        CHECK(sizes[label] == 1, RuntimeError,
              "einsum(): subscript {} has size {} for operand {} which does not broadcast with "
              "previously seen size {}",
              label_text(label), size, i, sizes[label]);
      }
      sizes[label] = size;
    }
  }
  for (Term& term : terms) {
    Labels kept;
    Dims dropped;
    for (size_t d = 0; d < term.labels.size(); ++d) {
      if (term.tensor.sizes()[d] == 1 && sizes[term.labels[d]] != 1) {
        dropped.push_back(static_cast<int64_t>(d));
      } else {
        kept.push_back(term.labels[d]);
      }
    }
    if (dropped.empty()) continue;
    term.tensor = squeeze(term.tensor, dropped);
    term.labels = kept;
  }
}

// Sums over dimensions that nobody else has.
void sum_out(Term& term, const bool* needed) {
  Labels kept;
  Dims dims;
  for (size_t d = 0; d < term.labels.size(); ++d) {
    if (needed[term.labels[d]]) {
      kept.push_back(term.labels[d]);
    } else {
      dims.push_back(static_cast<int64_t>(d));
    }
  }
  if (dims.empty()) return;
  term.tensor = sum(term.tensor, IntSpan(dims), false);
  term.labels = kept;
}

// Permutes a term to the given groups of labels and joins the dimensions of the last two groups.
Tensor arrange(const Term& term, const Labels& batch, const Labels& rows, const Labels& cols) {
  Dims order, shape;
  const auto take = [&](const Labels& labels, bool join) {
    int64_t size = 1;
    for (const int label : labels) {
      order.push_back(term.find(label));
      size *= term.tensor.sizes()[order.back()];
      if (!join) shape.push_back(term.tensor.sizes()[order.back()]);
    }
    if (join) shape.push_back(size);
  };
  take(batch, false);
  take(rows, true);
  take(cols, true);
  const Tensor permuted = permute(term.tensor, order);
  return permuted.sizes() == IntSpan(shape) ? permuted : reshape(permuted, shape);
}

// A term with dimensions of size 1 for labels that it lacks.
Tensor align(const Term& term, const Labels& labels) {
  Dims order;
  for (const int label : labels) {
    if (term.find(label) >= 0) order.push_back(term.find(label));
  }
  Tensor aligned = permute(term.tensor, order);
  for (size_t d = 0; d < labels.size(); ++d) {
    if (term.find(labels[d]) < 0) aligned = unsqueeze(aligned, static_cast<int64_t>(d));
  }
  return aligned;
}

// Labels in the order in which the output has them, those that it lacks behind.
Labels in_order(Labels labels, const Labels& output) {
  const auto place = [&](int label) {
    const auto at = std::find(output.begin(), output.end(), label);
    return at == output.end() ? static_cast<int64_t>(label_count) + label : at - output.begin();
  };
  std::sort(labels.begin(), labels.end(), [&](int x, int y) { return place(x) < place(y); });
  return labels;
}

// A sum over one element is none.
void drop_single(Term& a, Term& b, const bool* needed) {
  for (const int label : Labels(a.labels)) {
    const int in_a = a.find(label), in_b = b.find(label);
    if (needed[label] || in_b < 0) continue;
    if (a.tensor.sizes()[in_a] != 1 || b.tensor.sizes()[in_b] != 1) continue;
    for (const auto& [term, at] : {std::pair(&a, in_a), std::pair(&b, in_b)}) {
      term->tensor = squeeze(term->tensor, Dims{at});
      term->labels.erase(term->labels.begin() + at);
    }
  }
}

// The products of batches of matrices; to layers they are those of matmul, of which dispatch modes
// see bmm for a single one too, as in PyTorch.
Tensor products(const Tensor& a, const Tensor& b) {
  if (active_layers & Active::dispatch && a.dim() == 2 && b.dim() == 2)
    return squeeze(bmm(unsqueeze(a, 0), unsqueeze(b, 0)), int64_t{0});
  REDIRECT(matmul, a, b)
  CHECK(a.dtype() == b.dtype(), RuntimeError, "expected scalar type {} but found {}",
        dtype_legacy_name(a.dtype()), dtype_legacy_name(b.dtype()));
  return product("bmm", a, false, b, false);
}

// The product of two terms, summed over labels that are not needed any more. Groups of labels come
// in the order of the output; where all that only b has stands there before all that only a has
// (and `last` says that this is the output), so does it in the result.
Term contract(Term a, Term b, const bool* needed, const Labels& output, bool last) {
  bool for_a[label_count], for_b[label_count];
  std::copy_n(needed, label_count, for_a);
  std::copy_n(needed, label_count, for_b);
  for (const int label : b.labels) for_a[label] = true;
  for (const int label : a.labels) for_b[label] = true;
  sum_out(a, for_a);
  sum_out(b, for_b);
  drop_single(a, b, needed);
  Labels batch, left, right, contracted;
  for (const int label : a.labels) {
    const bool shared = b.find(label) >= 0;
    (shared ? needed[label] ? batch : contracted : left).push_back(label);
  }
  for (const int label : b.labels) {
    if (a.find(label) < 0) right.push_back(label);
  }
  Labels labels = batch = in_order(batch, output);
  left = in_order(left, output);
  right = in_order(right, output);
  Labels ends;
  if (!left.empty() && !right.empty()) ends = {left[0], right.back()};
  if (last && !contracted.empty() && !ends.empty() && in_order(ends, output)[0] != left[0]) {
    std::swap(a, b);
    std::swap(left, right);
  }
  labels.append(left.begin(), left.end());
  labels.append(right.begin(), right.end());
  if (contracted.empty()) {
    labels = in_order(labels, output);
    return {mul(align(a, labels), align(b, labels)), labels};
  }
  Dims shape;
  for (const int label : labels) {
    shape.push_back(a.find(label) >= 0 ? a.tensor.sizes()[a.find(label)]
                                       : b.tensor.sizes()[b.find(label)]);
  }
  Tensor rows = arrange(a, batch, left, contracted), columns = arrange(b, batch, contracted, right);
  // Products of vectors of reduced precision take long where these lie across memory.
  if (left.empty() && right.empty() && dtypes::Reduced.has(rows.dtype())) {
    rows = contiguous(rows);
    columns = contiguous(columns);
  }
  const Tensor result = products(rows, columns);
  return {result.sizes() == IntSpan(shape) ? result : reshape(result, shape), labels};
}

// The number of multiplications of contracting two terms, and the size of what comes out.
double cost_of(const Term& a, const Term& b, const int64_t* sizes) {
  double work = 1;
  for (const int label : a.labels) work *= static_cast<double>(sizes[label]);
  for (const int label : b.labels) {
    if (a.find(label) < 0) work *= static_cast<double>(sizes[label]);
  }
  return work;
}

// Contracts the cheapest pair until one term is left.
Term contract_all(std::vector<Term> terms, const Labels& output, const int64_t* sizes) {
  const bool pair = terms.size() == 2;
  while (terms.size() > 1) {
    size_t first = 0, second = 1;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < terms.size() && terms.size() > 2; ++i) {
      for (size_t j = i + 1; j < terms.size(); ++j) {
        const double cost = cost_of(terms[i], terms[j], sizes);
        if (cost < least) least = cost, first = i, second = j;
      }
    }
    bool needed[label_count] = {};
    for (const int label : output) needed[label] = true;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (i == first || i == second) continue;
      for (const int label : terms[i].labels) needed[label] = true;
    }
    terms[first] =
        contract(std::move(terms[first]), std::move(terms[second]), needed, output, pair);
    terms.erase(terms.begin() + static_cast<int64_t>(second));
  }
  return std::move(terms[0]);
}

}  // namespace

Tensor einsum(std::string_view equation_text, const std::vector<Tensor>& operands) {
  REDIRECT(einsum, equation_text, operands)
  CHECK(!operands.empty(), ValueError,
        "einsum(): must specify the equation string and at least one operand, or at least one "
        "operand and its subscripts list");
  for (const Tensor& operand : operands) {
    CHECK(operand.defined(), TypeError, "einsum(): operands must be tensors, got None");
  }
  Equation equation = Parser(equation_text).parse();
  CHECK(equation.operands.size() >= operands.size(), RuntimeError,
        "einsum(): more operands were provided than specified in the equation");
  CHECK(equation.operands.size() <= operands.size(), RuntimeError,
        "einsum(): fewer operands were provided than specified in the equation");
  const size_t ellipsis_dims = expand_ellipses(equation, operands);
  if (equation.has_output) {
    check_output(equation);
  } else {
    equation.output = implicit_output(equation, ellipsis_dims);
  }
  std::vector<Term> terms;
  for (size_t i = 0; i < operands.size(); ++i) {
    check_same_device("einsum()", operands[0].device(), operands[i].device());
    terms.push_back(take_diagonals(operands[i], equation.operands[i], i));
  }
  int64_t sizes[label_count];
  unite_sizes(terms, sizes);
  Term result = contract_all(std::move(terms), equation.output, sizes);
  bool needed[label_count] = {};
  for (const int label : equation.output) needed[label] = true;
  sum_out(result, needed);
  Dims order;
  bool in_place = true;
  for (const int label : equation.output) {
    in_place &= result.find(label) == static_cast<int>(order.size());
    order.push_back(result.find(label));
  }
  const bool given = result.tensor.impl() == operands[0].impl();  // never the result itself
  return in_place && !given ? result.tensor : permute(result.tensor, order);
}
OP_FUNCTION(einsum, "einsum(equation, *operands)",
            "Sums of products of elements of the operands, in the notation of Einstein.",
            composed | cuda_low | no_out)

static Tensor tensordot(const Tensor& input, const Tensor& other, IntSpan dims_self,
                        IntSpan dims_other) {
  REDIRECT(tensordot, input, other, dims_self, dims_other)
  CHECK(dims_self.size() == dims_other.size(), RuntimeError,
        "both dimension lists should have same length, got {} and {}", dims_self, dims_other);
  CHECK(input.dtype() == other.dtype(), RuntimeError,
        "both inputs should have same dtype, got {} and {}", input.dtype(), other.dtype());
  const auto mask_self = dim_mask("tensordot", dims_self, input.dim());
  const auto mask_other = dim_mask("tensordot", dims_other, other.dim());
  Tensor a = input, b = other;
  Dims order_a, order_b, shape;
  int64_t contracted = 1, rows = 1, cols = 1;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (!dims_self.empty() && mask_self[d]) continue;
    order_a.push_back(d);
    shape.push_back(input.sizes()[d]);
    rows *= input.sizes()[d];
  }
  for (size_t i = 0; i < dims_self.size(); ++i) {
    const int64_t da = wrap_dim(dims_self[i], input.dim()),
                  db = wrap_dim(dims_other[i], other.dim());
    const int64_t size_a = a.size(da), size_b = b.size(db);  // numbers have no dimension
    CHECK(
        size_a == size_b || size_a == 1 || size_b == 1, RuntimeError,
        "contracted dimensions need to match, but first has size {} in dim {} and second has size "
        "{} in dim {}",
        size_a, dims_self[i], size_b, dims_other[i]);
    // One element against many: their sum, once.
    if (size_a == 1 && size_b != 1) b = sum(b, IntSpan(db), true, b.dtype());
    if (size_b == 1 && size_a != 1) a = sum(a, IntSpan(da), true, a.dtype());
    contracted *= size_a == size_b ? size_a : 1;
    order_a.push_back(da);
    order_b.push_back(db);
  }
  for (int64_t d = 0; d < other.dim(); ++d) {
    if (!dims_other.empty() && mask_other[d]) continue;
    order_b.push_back(d);
    shape.push_back(other.sizes()[d]);
    cols *= other.sizes()[d];
  }
  const Tensor left = reshape(permute(a, order_a), {rows, contracted});
  const Tensor right = reshape(permute(b, order_b), {contracted, cols});
  return reshape(mm(left, right), shape);
}
OP_FUNCTION(tensordot, "tensordot(input, other, dims_self, dims_other)",
            "The sum of products over pairs of dimensions of two tensors.",
            composed | cuda_widest | out_records)

static Tensor inner(const Tensor& input, const Tensor& other) {
  if (input.dim() == 0 || other.dim() == 0) return mul(input, other);
  CHECK(input.dtype() == other.dtype(), RuntimeError,
        "both inputs should have same dtype, got {} and {}", input.dtype(), other.dtype());
  CHECK(input.size(-1) == other.size(-1), RuntimeError,
        "inner() the last dimension must match on both input tensors but got shapes {} and {}",
        input.sizes(), other.sizes());
  if (input.dim() == 1 && other.dim() == 1) return dot(input, other);
  return tensordot(input, other, int64_t{-1}, int64_t{-1});
}
OP(inner, "inner(input, other)", "The sum of products over the last dimension of both.",
   composed | cuda_widest | out_records)

static Tensor kron(const Tensor& input, const Tensor& other) {
  const int64_t rank = std::max(input.dim(), other.dim());
  // Interleaved dimensions of size 1: (a, 1) times (1, b) gives (a, b), which join to a * b.
  Dims shape_a, shape_b, shape;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t from_a = d - (rank - input.dim()), from_b = d - (rank - other.dim());
    const int64_t a = from_a >= 0 ? input.sizes()[from_a] : 1;
    const int64_t b = from_b >= 0 ? other.sizes()[from_b] : 1;
    shape_a.push_back(a);
    shape_a.push_back(1);
    shape_b.push_back(1);
    shape_b.push_back(b);
    shape.push_back(checked_multiply(a, b));
  }
  return reshape(mul(reshape(input, shape_a), reshape(other, shape_b)), shape);
}
OP(kron, "kron(input, other)", "The Kronecker product: every element of input times all of other.",
   casts_out | composed)

}  // namespace flambeau
