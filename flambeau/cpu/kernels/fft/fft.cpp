// Fourier transforms along a dimension: lines are gathered, a few at a time, into the layout of
// Plan, transformed and stored. Blocks of lines run in parallel.
#include <complex>
#include <cstring>
#include <memory>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/fft/plan.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/kernels/fft.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr DTypeSet real_dtypes = DType::float32 | DType::float64;

// The lines of a tensor along a dimension, by number: all other dimensions in order.
struct LineOffsets {
  Dims sizes, strides;
  int64_t step;  // along the line

  LineOffsets(const Tensor& t, int64_t dim) : step(t.strides()[dim]) {
    for (int64_t d = 0; d < t.dim(); ++d) {
      const int64_t size = t.sizes()[d], stride = t.strides()[d];
      if (d == dim || size == 1) continue;
      if (!sizes.empty() && strides.back() == size * stride) {  // goes on where the last one ends
        sizes.back() *= size;
        strides.back() = stride;
      } else {
        sizes.push_back(size);
        strides.push_back(stride);
      }
    }
  }
  [[nodiscard]] int64_t operator[](int64_t line) const {
    int64_t offset = 0;
    for (size_t d = sizes.size(); d-- > 1;) {
      offset += line % sizes[d] * strides[d];
      line /= sizes[d];
    }
    return sizes.empty() ? offset : offset + line * strides[0];
  }
};

// A few lines of a tensor.
struct Block {
  static constexpr int64_t most = 128;
  int64_t lines, step;
  int64_t start, pitch = 1;  // of the first line, and from line to line
  bool evenly = true;        // at that distance, all of them
  int64_t offsets[most];     // if not

  Block(const LineOffsets& all, int64_t first, int64_t count)
      : lines(count), step(all.step), start(all[first]) {
    if (all.sizes.size() <= 1) {
      if (!all.sizes.empty()) pitch = all.strides[0];
      return;
    }
    for (int64_t l = 0; l < count; ++l) offsets[l] = all[first + l];
    if (count > 1) pitch = offsets[1] - start;
    for (int64_t l = 2; l < count; ++l) evenly &= offsets[l] - offsets[l - 1] == pitch;
  }
  [[nodiscard]] int64_t operator[](int64_t l) const {
    return evenly ? start + l * pitch : offsets[l];
  }
  // Whether the lines are neighbours in memory, or rows of a matrix.
  [[nodiscard]] bool adjacent() const { return evenly && pitch == 1; }
  [[nodiscard]] bool rows_of_matrix() const { return evenly && step == 1 && lines > 1; }
};

// Lines that follow each other are read and written side by side, which no processor foresees: the
// next ones are asked for while these are transformed, as is the place for these.
void ask_for_block(const Tensor& t, const Block& b, int64_t length, bool next, bool to_write) {
  constexpr int64_t second_level = 1 << 20, line = 64;
  const int64_t item = item_size(t.dtype());
  if (!b.rows_of_matrix() || b.pitch != length || t.numel() * item <= second_level) return;
  const int64_t bytes = b.lines * length * item;
  const char* at = static_cast<const char*>(t.raw()) + b.start * item + (next ? bytes : 0);
  for (int64_t i = 0; i < bytes; i += line) {
    to_write ? ask_to_write(at + i) : ask_second_level(at + i);
  }
}

// Calls body(place, offset) for all elements, in the order of memory.
template <class Body>
inline void for_elements(const Block& b, int64_t rows, const Body& body) {
  const int64_t lines = b.lines, step = b.step;
  if (b.adjacent() && lines > 1) {
    const int64_t start = b.start;
    for (int64_t i = 0; i < rows; ++i) {
      IVDEP for (int64_t l = 0; l < lines; ++l) body(i * lines + l, start + i * step + l);
    }
  } else if (lines == 1 && step == 1) {
    const int64_t start = b.start;
    IVDEP for (int64_t i = 0; i < rows; ++i) body(i, start + i);
  } else {
    // A few rows at a time, so that their cache lines are still there for the next line.
    constexpr int64_t chunk = 16;
    for (int64_t begin = 0; begin < rows; begin += chunk) {
      const int64_t end = std::min(rows, begin + chunk);
      for (int64_t l = 0; l < lines; ++l) {
        const int64_t start = b[l];
        for (int64_t i = begin; i < end; ++i) body(i * lines + l, start + i * step);
      }
    }
  }
}

// Calls body(place, offset of element 2 row, offset of element 2 row + 1) for all pairs.
template <class Body>
inline void for_pairs(const Block& b, int64_t rows, const Body& body) {
  Block doubled = b;
  doubled.step *= 2;
  if (b.lines == 1 && b.step == 1) {
    const int64_t start = b.start;
    IVDEP for (int64_t i = 0; i < rows; ++i) body(i, start + 2 * i, start + 2 * i + 1);
    return;
  }
  for_elements(doubled, rows,
               [&](int64_t at, int64_t offset) { body(at, offset, offset + b.step); });
}

// The columns of a matrix as rows: alternately in two buffers, or all in one.
template <class T>
struct Columns {
  T *even, *odd;
  int64_t step;
  static Columns pairs(const Lines<T>& x, int64_t lines) { return {x.re, x.im, lines}; }
  static Columns single(const Lines<T>& x, int64_t lines) {
    return {x.re, x.re + lines, 2 * lines};
  }
};

// Turns a matrix into columns, or those into a matrix times `scale`: squares of N x N numbers
// inside registers, what is left at the borders by smaller ones.
enum class Way { load, store };
template <Way way, int N, class T>
void turn_part(T* matrix, int64_t pitch, const Columns<T>& columns, T scale, int64_t first_line,
               int64_t last_line, int64_t first, int64_t last) {
  if (first_line == last_line || first == last) return;
  using Lanes = LanesOf<T, N>;
  typedef T Numbers __attribute__((vector_size(N * sizeof(T))));
  const int64_t end_line = first_line + (last_line - first_line) / N * N;
  const int64_t end = first + (last - first) / N * N;
  for (int64_t l = first_line; l < end_line; l += N) {
    for (int64_t c = first; c < end; c += N) {
      T* row = matrix + l * pitch + c;
      T *even = columns.even + c / 2 * columns.step + l, *odd = columns.odd + (even - columns.even);
      typename Lanes::Register rows[N];
      UNROLL for (int i = 0; i < N; ++i) {
        const T* column = (i % 2 == 0 ? even : odd) + i / 2 * columns.step;
        rows[i] = Lanes::load(way == Way::load ? row + i * pitch : column);
      }
      turn_registers<T, N>(rows);
      UNROLL for (int i = 0; i < N; ++i) {
        if constexpr (way == Way::load) {
          Lanes::store(rows[i], (i % 2 == 0 ? even : odd) + i / 2 * columns.step);
        } else {
          const Numbers scaled = reinterpret_cast<Numbers>(rows[i]) * scale;
          std::memcpy(row + i * pitch, &scaled, sizeof scaled);
        }
      }
    }
  }
  if constexpr (N * sizeof(T) > 16) {
    turn_part<way, N / 2>(matrix, pitch, columns, scale, end_line, last_line, first, last);
    turn_part<way, N / 2>(matrix, pitch, columns, scale, first_line, end_line, end, last);
  } else {
    for (int64_t c = first; c < last; ++c) {
      T* column = (c % 2 == 0 ? columns.even : columns.odd) + c / 2 * columns.step;
      T* number = matrix + c;
      for (int64_t l = c < end ? end_line : first_line; l < last_line; ++l) {
        way == Way::load ? void(column[l] = number[l * pitch])
                         : void(number[l * pitch] = column[l] * scale);
      }
    }
  }
}
template <class T>
void load_transposed(const T* matrix, int64_t pitch, int64_t lines, int64_t n, Columns<T> to) {
  constexpr int lanes = register_bytes / sizeof(T);
  turn_part<Way::load, lanes>(const_cast<T*>(matrix), pitch, to, T(1), 0, lines, 0, n);
}
template <class T>
void store_transposed(T* matrix, int64_t pitch, int64_t lines, int64_t n, Columns<T> from,
                      T scale) {
  constexpr int lanes = register_bytes / sizeof(T);
  turn_part<Way::store, lanes>(matrix, pitch, from, scale, 0, lines, 0, n);
}

template <class T>
void load_complex(const std::complex<T>* in, const Block& b, int64_t rows, const Lines<T>& x) {
  const T* from = reinterpret_cast<const T*>(in);
  if (b.rows_of_matrix()) {
    return load_transposed(from + 2 * b.start, 2 * b.pitch, b.lines, 2 * rows,
                           Columns<T>::pairs(x, b.lines));
  }
  for_elements(b, rows, [re = x.re, im = x.im, from](int64_t at, int64_t offset) {
    re[at] = from[2 * offset];
    im[at] = from[2 * offset + 1];
  });
}
template <class T>
void store_complex(std::complex<T>* out, const Block& b, int64_t rows, const Lines<T>& x, T scale) {
  T* to = reinterpret_cast<T*>(out);
  if (b.rows_of_matrix()) {
    return store_transposed(to + 2 * b.start, 2 * b.pitch, b.lines, 2 * rows,
                            Columns<T>::pairs(x, b.lines), scale);
  }
  for_elements(b, rows, [re = x.re, im = x.im, to, scale](int64_t at, int64_t offset) {
    to[2 * offset] = re[at] * scale;
    to[2 * offset + 1] = im[at] * scale;
  });
}

// Pairs of real numbers as complex ones.
template <class T>
void load_pairs(const T* in, const Block& b, int64_t rows, const Lines<T>& x) {
  if (b.rows_of_matrix()) {
    return load_transposed(in + b.start, b.pitch, b.lines, 2 * rows, Columns<T>::pairs(x, b.lines));
  }
  for_pairs(b, rows, [in, re = x.re, im = x.im](int64_t at, int64_t even, int64_t odd) {
    re[at] = in[even], im[at] = in[odd];
  });
}
template <class T>
void store_pairs(T* out, const Block& b, int64_t rows, const Lines<T>& x, T scale) {
  if (b.rows_of_matrix()) {
    return store_transposed(out + b.start, b.pitch, b.lines, 2 * rows,
                            Columns<T>::pairs(x, b.lines), scale);
  }
  for_pairs(b, rows, [out, re = x.re, im = x.im, scale](int64_t at, int64_t even, int64_t odd) {
    out[even] = re[at] * scale, out[odd] = im[at] * scale;
  });
}

// Real numbers alone.
template <class T>
void load_real(const T* in, const Block& b, int64_t rows, const Lines<T>& x) {
  if (b.rows_of_matrix()) {
    return load_transposed(in + b.start, b.pitch, b.lines, rows, Columns<T>::single(x, b.lines));
  }
  for_elements(b, rows, [re = x.re, in](int64_t at, int64_t offset) { re[at] = in[offset]; });
}
template <class T>
void store_real(T* out, const Block& b, int64_t rows, const Lines<T>& x, T scale) {
  if (b.rows_of_matrix()) {
    return store_transposed(out + b.start, b.pitch, b.lines, rows, Columns<T>::single(x, b.lines),
                            scale);
  }
  for_elements(b, rows, [re = x.re, out, scale](int64_t at, int64_t offset) {
    out[offset] = re[at] * scale;
  });
}

// As many lines at once as fill a vector register, more where they are short, fewer where the
// buffers would leave the cache.
template <class T>
int64_t lines_at_once(int64_t rows) {
  constexpr int64_t lanes = 64 / static_cast<int64_t>(sizeof(T)), near = 1024;  // numbers at hand
  int64_t lines = std::min(Block::most, lanes * std::max<int64_t>(near / (rows * lanes), 1));
  while (lines > 1 && 4 * rows * lines * static_cast<int64_t>(sizeof(T)) > (1 << 20)) lines /= 2;
  return lines;
}

// Calls body(first line, number of lines, buffers) for blocks of lines, in parallel.
template <class T, class Body>
void for_blocks(int64_t count, int64_t rows, bool single, const Body& body) {
  const int64_t width = single ? 1 : lines_at_once<T>(rows);
  const int64_t blocks = (count + width - 1) / width;
  const int64_t grain = 8192 / std::max<int64_t>(rows * width, 1) + 1;
  parallel_for(0, blocks, grain, [&](int64_t begin, int64_t end) {
    // Not a power of two apart, or equal offsets into the buffers would share lines of the cache.
    constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(T));
    const int64_t size = rows * width + 5 * line;
    const Tensor buffer = make_tensor({4 * size}, dtype_of<T>, Device{});
    T* at = buffer.data<T>();
    for (int64_t k = begin; k < end; ++k) {
      Lines<T> x{at, at + size, at + 2 * size, at + 3 * size};
      body(k * width, std::min(width, count - k * width), x);
    }
  });
}

template <class T>
void complex_transform(const Tensor& input, const Tensor& out, int64_t dim, bool inverse, T scale) {
  const int64_t n = input.sizes()[dim], count = input.numel() / n;
  const auto plan = plan_for<Plan<T>>(n);
  const LineOffsets from(input, dim), to(out, dim);
  for_blocks<T>(count, plan->rows(), from.step == 1 && plan->prefers_single_lines(count),
                [&](int64_t first, int64_t lines, Lines<T>& x) {
                  const Block source(from, first, lines), target(to, first, lines);
                  load_complex(input.data<std::complex<T>>(), source, n, x);
                  ask_for_block(out, target, n, false, true);
                  ask_for_block(input, source, n, true, false);
                  if (inverse) x.swap_parts();
                  plan->run(x, lines);
                  if (inverse) x.swap_parts();
                  store_complex(out.data<std::complex<T>>(), target, n, x, scale);
                });
}

// The transform of n real numbers: of n / 2 pairs, or for odd n of n complex numbers.
template <class T>
struct RealPlan {
  int64_t n;
  std::shared_ptr<const Plan<T>> plan;
  // e**(-2 pi i k / n) for k up to n / 4: what takes a transform of pairs to one of numbers.
  Numbers<T> roots_re, roots_im;

  explicit RealPlan(int64_t length)
      : n(length), plan(plan_for<Plan<T>>(length % 2 == 0 ? length / 2 : length)) {
    roots_re.reserve(n / 4 + 1), roots_im.reserve(n / 4 + 1);
    for (int64_t k = 0; k <= n / 4; ++k) {
      const auto [re, im] = root_of_unity<T>(k, n);
      roots_re.push_back(re);
      roots_im.push_back(im);
    }
  }
  [[nodiscard]] int64_t size() const { return n; }
  [[nodiscard]] size_t bytes() const { return 2 * roots_re.size() * sizeof(T) + plan->bytes(); }
};

// Calls body(place of row k, place of row h - k, root k) for all elements of the rows 1 .. h - 1,
// each pair once.
template <class T, class Body>
inline void for_mirrored(int64_t h, int64_t lines, const RealPlan<T>& plan, const Body& body) {
  const T *c = plan.roots_re.data(), *d = plan.roots_im.data();
  if (lines == 1) {
    IVDEP for (int64_t k = 1; k <= h / 2; ++k) body(k, h - k, c[k], d[k]);
    return;
  }
  for (int64_t k = 1; k <= h / 2; ++k) {
    IVDEP for (int64_t l = 0; l < lines; ++l) {
      body(k * lines + l, (h - k) * lines + l, c[k], d[k]);
    }
  }
}

// From the transform z of pairs (x[2j] + i x[2j + 1]), of length h = n / 2, to that of x:
// X[k] = (z[k] + conj z[h - k]) / 2 - i w**k (z[k] - conj z[h - k]) / 2.
template <class T>
void unpack_real(const Lines<T>& x, int64_t h, int64_t lines, const RealPlan<T>& plan) {
  const T *re = x.re, *im = x.im;
  T *yr = x.spare_re, *yi = x.spare_im;
  for (int64_t l = 0; l < lines; ++l) {
    yr[l] = re[l] + im[l], yi[l] = 0;
    yr[h * lines + l] = re[l] - im[l], yi[h * lines + l] = 0;
  }
  for_mirrored(h, lines, plan, [=](int64_t a, int64_t b, T c, T d) {
    const T er = (re[a] + re[b]) / 2, ei = (im[a] - im[b]) / 2;
    const T fr = (im[a] + im[b]) / 2, fi = (re[b] - re[a]) / 2;  // -i (a - conj b) / 2
    const T gr = fr * c - fi * d, gi = fr * d + fi * c;
    yr[a] = er + gr, yi[a] = ei + gi;
    yr[b] = er - gr, yi[b] = gi - ei;
  });
}

// The rest of a transform of real numbers, of which the first half is there; for an inverse one
// with the halves exchanged.
template <class T>
void mirror(const Lines<T>& x, int64_t n, int64_t lines, bool inverse) {
  const T sign = inverse ? T(1) : T(-1);
  T *re = x.re, *im = x.im;
  const auto copy = [=](int64_t from, int64_t to) INLINED {
    const T value = im[from] * sign;
    re[to] = re[from], im[to] = value, im[from] = -value;
  };
  if (lines == 1) {
    IVDEP for (int64_t k = 1; k <= (n - 1) / 2; ++k) copy(k, n - k);
    return;
  }
  for (int64_t k = 1; k <= (n - 1) / 2; ++k) {
    IVDEP for (int64_t l = 0; l < lines; ++l) copy(k * lines + l, (n - k) * lines + l);
  }
}

// The first half of the transform, or all of it if `out` is large enough.
template <class T>
void real_transform(const Tensor& input, const Tensor& out, int64_t dim, bool inverse, T scale) {
  const int64_t n = input.sizes()[dim], count = input.numel() / n, half = n / 2;
  const bool even = n % 2 == 0;
  const int64_t wanted = out.sizes()[dim];
  const auto real_plan = plan_for<RealPlan<T>>(n);
  const Plan<T>* plan = real_plan->plan.get();
  const LineOffsets from(input, dim), to(out, dim);
  for_blocks<T>(count, std::max(plan->rows() + 1, wanted),
                from.step == 1 && plan->prefers_single_lines(count),
                [&](int64_t first, int64_t lines, Lines<T>& x) {
                  const T* in = input.data<T>();
                  const Block source(from, first, lines), target(to, first, lines);
                  ask_for_block(out, target, wanted, false, true);
                  ask_for_block(input, source, n, true, false);
                  if (even) {
                    load_pairs(in, source, half, x);
                    plan->run(x, lines);
                    unpack_real(x, half, lines, *real_plan);
                    x.swap_buffers();
                    if (wanted == n) mirror(x, n, lines, inverse);
                  } else {
                    load_real(in, source, n, x);
                    std::fill_n(x.im, n * lines, T(0));
                    if (inverse) x.swap_parts();
                    plan->run(x, lines);
                    if (inverse) x.swap_parts();
                  }
                  store_complex(out.data<std::complex<T>>(), target, wanted, x, scale);
                });
}

// The way back of unpack_real: z[k] = (X[k] + conj X[h - k]) + i w**-k (X[k] - conj X[h - k]).
template <class T>
void pack_real(const Lines<T>& x, int64_t h, int64_t lines, const RealPlan<T>& plan) {
  const T *re = x.re, *im = x.im;
  T *zr = x.spare_re, *zi = x.spare_im;
  for (int64_t l = 0; l < lines; ++l) {
    zr[l] = re[l] + re[h * lines + l];
    zi[l] = re[l] - re[h * lines + l];
  }
  for_mirrored(h, lines, plan, [=](int64_t a, int64_t b, T c, T d) {
    const T er = re[a] + re[b], ei = im[a] - im[b];
    const T sr = re[a] - re[b], si = im[a] + im[b];
    const T fr = sr * d - si * c, fi = sr * c + si * d;  // i w**-k (a - conj b)
    zr[a] = er + fr, zi[a] = ei + fi;
    zr[b] = er - fr, zi[b] = fi - ei;
  });
}

template <class T>
void transform_to_real(const Tensor& input, const Tensor& out, int64_t dim, T scale) {
  const int64_t n = out.sizes()[dim], count = out.numel() / n, half = n / 2;
  const bool even = n % 2 == 0;
  const auto real_plan = plan_for<RealPlan<T>>(n);
  const Plan<T>* plan = real_plan->plan.get();
  const LineOffsets from(input, dim), to(out, dim);
  for_blocks<T>(count, plan->rows() + 1, to.step == 1 && plan->prefers_single_lines(count),
                [&](int64_t first, int64_t lines, Lines<T>& x) {
                  const Block source(from, first, lines), target(to, first, lines);
                  load_complex(input.data<std::complex<T>>(), source, half + 1, x);
                  ask_for_block(out, target, n, false, true);
                  ask_for_block(input, source, half + 1, true, false);
                  T* y = out.data<T>();
                  if (even) {
                    pack_real(x, half, lines, *real_plan);
                    x.swap_buffers();
                    x.swap_parts();
                    plan->run(x, lines);
                    x.swap_parts();
                    store_pairs(y, target, half, x, scale);
                    return;
                  }
                  std::fill_n(x.im, lines, T(0));
                  for (int64_t k = 1; k <= half; ++k) {
                    for (int64_t l = 0; l < lines; ++l) {
                      x.re[(n - k) * lines + l] = x.re[k * lines + l];
                      x.im[(n - k) * lines + l] = -x.im[k * lines + l];
                    }
                  }
                  x.swap_parts();
                  plan->run(x, lines);
                  x.swap_parts();
                  store_real(y, target, n, x, scale);
                });
}

void fft_complex(const Tensor& input, const Tensor& out, int64_t dim, bool inverse, double scale) {
  dispatch<real_dtypes>("fft_c2c", to_real(out.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool is_real = !is_complex(input.dtype());
    (is_real ? real_transform<T> : complex_transform<T>)(input, out, dim, inverse,
                                                         static_cast<T>(scale));
  });
}
KERNEL_FOR(fft_complex, fft_complex)

void fft_real(const Tensor& input, const Tensor& out, int64_t dim, double scale) {
  dispatch<real_dtypes>("fft_r2c", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    real_transform<T>(input, out, dim, false, static_cast<T>(scale));
  });
}
KERNEL_FOR(fft_real, fft_real)

void fft_to_real(const Tensor& input, const Tensor& out, int64_t dim, double scale) {
  dispatch<real_dtypes>("fft_c2r", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    transform_to_real<T>(input, out, dim, static_cast<T>(scale));
  });
}
KERNEL_FOR(fft_to_real, fft_to_real)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
