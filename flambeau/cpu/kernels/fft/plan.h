// The Fourier transform of one length, for several lines of numbers at once.
//
// Numbers lie as [index][line], real and imaginary parts apart, so that every innermost loop runs
// over contiguous numbers and becomes vector code. The stages are Stockham's: each goes from one
// buffer to another and leaves the result in order. A length with a large prime factor goes through
// a convolution whose length is a power of two (Bluestein). An inverse transform is a forward one
// with real and imaginary parts exchanged.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <numbers>
#include <utility>
#include <vector>

#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/tensor/storage.h"

// A loop over numbers becomes vector code only if those inside it, over a radix, are unrolled whole
// and nothing is called.
#define UNROLL _Pragma("GCC unroll 16")
#define INLINED __attribute__((always_inline))

namespace flambeau::cpu::ISA_NAMESPACE {

// Numbers in the memory of tensors, so that a length beyond it ends in an error that says the size.
template <class T>
struct TensorMemory {
  using value_type = T;
  T* allocate(size_t count) {
    return static_cast<T*>(allocator(DeviceType::cpu).allocate(count * sizeof(T), Device{}));
  }
  void deallocate(T* data, size_t count) noexcept {
    allocator(DeviceType::cpu).free(data, count * sizeof(T), Device{});
  }
  bool operator==(const TensorMemory&) const = default;
};
template <class T>
using Numbers = std::vector<T, TensorMemory<T>>;

// e**(-2 pi i k / n), reduced to an octant so that it is exact to the last bit or so.
template <class T>
std::pair<T, T> root_of_unity(int64_t k, int64_t n) {
  k %= n;
  const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  if (8 * k < n || 8 * k > 7 * n) {
    const int64_t wrapped = 2 * k > n ? k - n : k;
    const double a = 2 * std::numbers::pi * static_cast<double>(wrapped) / static_cast<double>(n);
    return {static_cast<T>(std::cos(a)), static_cast<T>(-std::sin(a))};
  }
  if (4 * k == n) return {T(0), T(-1)};
  if (2 * k == n) return {T(-1), T(0)};
  if (4 * k == 3 * n) return {T(0), T(1)};
  return {static_cast<T>(std::cos(angle)), static_cast<T>(-std::sin(angle))};
}

// Where a stage reads and writes: `inner` contiguous numbers for each of radix * m indices.
template <class T>
struct StageBuffers {
  const T *xr, *xi;
  T *yr, *yi;
  int64_t m, inner;
  const T *wr, *wi;  // twiddle factors k = 1 .. radix - 1, m of each
};

// Calls butterfly(read, write, p) for all elements; `read(j)` gives the j-th input as a pair of
// numbers, write(k, re, im) stores the k-th output times its twiddle factor.
template <int Radix, class T, class Butterfly>
inline void run_stage(const StageBuffers<T>& s, Butterfly butterfly) {
  const int64_t m = s.m, inner = s.inner, span = m * inner;
  if (Radix <= 8 && Radix != 7 && inner == 1) {  // larger primes come after other factors
    const T *xr = s.xr, *xi = s.xi, *wr = s.wr, *wi = s.wi;
    T *yr = s.yr, *yi = s.yi;
    IVDEP for (int64_t p = 0; p < m; ++p) {
      T re[Radix], im[Radix];
      UNROLL for (int j = 0; j < Radix; ++j) re[j] = xr[p + j * m], im[j] = xi[p + j * m];
      butterfly(re, im);
      yr[Radix * p] = re[0], yi[Radix * p] = im[0];
      UNROLL for (int k = 1; k < Radix; ++k) {
        const T c = wr[(k - 1) * m + p], d = wi[(k - 1) * m + p];
        yr[Radix * p + k] = re[k] * c - im[k] * d;
        yi[Radix * p + k] = re[k] * d + im[k] * c;
      }
    }
    return;
  }
  for (int64_t p = 0; p < m; ++p) {
    T c[Radix], d[Radix];
    for (int k = 1; k < Radix; ++k) c[k] = s.wr[(k - 1) * m + p], d[k] = s.wi[(k - 1) * m + p];
    const T *xr = s.xr + p * inner, *xi = s.xi + p * inner;
    T *yr = s.yr + Radix * p * inner, *yi = s.yi + Radix * p * inner;
    IVDEP for (int64_t q = 0; q < inner; ++q) {
      T re[Radix], im[Radix];
      UNROLL for (int j = 0; j < Radix; ++j) re[j] = xr[q + j * span], im[j] = xi[q + j * span];
      butterfly(re, im);
      yr[q] = re[0], yi[q] = im[0];
      UNROLL for (int k = 1; k < Radix; ++k) {
        yr[q + k * inner] = re[k] * c[k] - im[k] * d[k];
        yi[q + k * inner] = re[k] * d[k] + im[k] * c[k];
      }
    }
  }
}

template <class T>
void stage2(const StageBuffers<T>& s) {
  run_stage<2>(s, [](T* re, T* im) INLINED {
    const T r = re[0] - re[1], i = im[0] - im[1];
    re[0] += re[1], im[0] += im[1];
    re[1] = r, im[1] = i;
  });
}

template <class T>
void stage3(const StageBuffers<T>& s) {
  constexpr T half_root_3 = T(0.86602540378443864676);
  run_stage<3>(s, [](T* re, T* im) INLINED {
    const T sr = re[1] + re[2], si = im[1] + im[2];
    const T dr = (im[1] - im[2]) * half_root_3, di = (re[2] - re[1]) * half_root_3;
    const T mr = re[0] - T(0.5) * sr, mi = im[0] - T(0.5) * si;
    re[0] += sr, im[0] += si;
    re[1] = mr + dr, im[1] = mi + di;
    re[2] = mr - dr, im[2] = mi - di;
  });
}

// The transform of the four numbers that stand `Step` apart, in place.
template <int Step, class T>
[[gnu::always_inline]] inline void butterfly4(T* re, T* im) {
  const T ar = re[0] + re[2 * Step], ai = im[0] + im[2 * Step];
  const T br = re[0] - re[2 * Step], bi = im[0] - im[2 * Step];
  const T cr = re[Step] + re[3 * Step], ci = im[Step] + im[3 * Step];
  const T dr = im[Step] - im[3 * Step], di = re[3 * Step] - re[Step];  // -i (x1 - x3)
  re[0] = ar + cr, im[0] = ai + ci;
  re[Step] = br + dr, im[Step] = bi + di;
  re[2 * Step] = ar - cr, im[2 * Step] = ai - ci;
  re[3 * Step] = br - dr, im[3 * Step] = bi - di;
}

template <class T>
[[gnu::always_inline]] inline void rotate(T& re, T& im, T c, T d) {
  const T r = re * c - im * d;
  im = re * d + im * c;
  re = r;
}

template <class T>
void stage4(const StageBuffers<T>& s) {
  run_stage<4>(s, [](T* re, T* im) INLINED { butterfly4<1>(re, im); });
}

// Two transforms of four numbers, and four of two.
template <class T>
void stage8(const StageBuffers<T>& s) {
  run_stage<8>(s, [](T* re, T* im) INLINED {
    constexpr T h = T(0.70710678118654752440);
    butterfly4<2>(re, im);
    butterfly4<2>(re + 1, im + 1);
    rotate(re[3], im[3], h, -h);
    rotate(re[5], im[5], T(0), T(-1));
    rotate(re[7], im[7], -h, -h);
    T yr[8], yi[8];
    UNROLL for (int k = 0; k < 4; ++k) {
      yr[k] = re[2 * k] + re[2 * k + 1], yi[k] = im[2 * k] + im[2 * k + 1];
      yr[k + 4] = re[2 * k] - re[2 * k + 1], yi[k + 4] = im[2 * k] - im[2 * k + 1];
    }
    UNROLL for (int k = 0; k < 8; ++k) re[k] = yr[k], im[k] = yi[k];
  });
}

// An odd prime: numbers j and Radix - j go together, as sums with cosines and differences with
// sines.
template <int Radix, class T>
void stage_prime(const StageBuffers<T>& s, const T* cosines, const T* sines) {
  constexpr int half = Radix / 2;
  T c[half][half], d[half][half];
  for (int k = 0; k < half; ++k) {
    for (int j = 0; j < half; ++j) {
      c[k][j] = cosines[(j + 1) * (k + 1) % Radix], d[k][j] = sines[(j + 1) * (k + 1) % Radix];
    }
  }
  run_stage<Radix>(s, [&c, &d](T* re, T* im) INLINED {
    T sr[half], si[half], dr[half], di[half];
    const T x = re[0], y = im[0];
    UNROLL for (int j = 0; j < half; ++j) {
      const int a = j + 1, b = Radix - 1 - j;
      sr[j] = re[a] + re[b], si[j] = im[a] + im[b];
      dr[j] = re[a] - re[b], di[j] = im[a] - im[b];
      re[0] += sr[j], im[0] += si[j];
    }
    UNROLL for (int k = 0; k < half; ++k) {
      T er = x, ei = y, fr = 0, fi = 0;
      UNROLL for (int j = 0; j < half; ++j) {
        er += c[k][j] * sr[j], ei += c[k][j] * si[j];
        fr -= d[k][j] * di[j], fi += d[k][j] * dr[j];
      }
      re[k + 1] = er + fr, im[k + 1] = ei + fi;
      re[Radix - 1 - k] = er - fr, im[Radix - 1 - k] = ei - fi;
    }
  });
}

template <class T>
void stage5(const StageBuffers<T>& s) {
  constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);
  constexpr T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);
  run_stage<5>(s, [](T* re, T* im) INLINED {
    const T ar = re[1] + re[4], ai = im[1] + im[4], br = re[2] + re[3], bi = im[2] + im[3];
    const T cr = im[1] - im[4], ci = re[4] - re[1], dr = im[2] - im[3], di = re[3] - re[2];
    const T er = re[0] + c1 * ar + c2 * br, ei = im[0] + c1 * ai + c2 * bi;
    const T fr = re[0] + c2 * ar + c1 * br, fi = im[0] + c2 * ai + c1 * bi;
    const T gr = s1 * cr + s2 * dr, gi = s1 * ci + s2 * di;
    const T hr = s2 * cr - s1 * dr, hi = s2 * ci - s1 * di;
    re[0] += ar + br, im[0] += ai + bi;
    re[1] = er + gr, im[1] = ei + gi;
    re[2] = fr + hr, im[2] = fi + hi;
    re[3] = fr - hr, im[3] = fi - hi;
    re[4] = er - gr, im[4] = ei - gi;
  });
}

// Larger primes the same way, with sums in registers and what they are of near by.
constexpr int largest_radix = 23;
template <class T>
void stage_large_prime(const StageBuffers<T>& s, int64_t radix, const T* cosines, const T* sines) {
  using V = typename Register<T>::type;
  constexpr int64_t lanes = sizeof(V) / sizeof(T);
  const int64_t inner = s.inner, span = s.m * inner, half = radix / 2;
  for (int64_t p = 0; p < s.m; ++p) {
    for (int64_t q = 0; q < inner; q += lanes) {
      const size_t bytes = std::min(lanes, inner - q) * sizeof(T);
      const auto load = [=](const T* from) {
        V v{};
        bytes == sizeof v ? std::memcpy(&v, from, sizeof v) : std::memcpy(&v, from, bytes);
        return v;
      };
      const auto store = [=](T* to, V v) {
        bytes == sizeof v ? std::memcpy(to, &v, sizeof v) : std::memcpy(to, &v, bytes);
      };
      const T *xr = s.xr + p * inner + q, *xi = s.xi + p * inner + q;
      T *yr = s.yr + radix * p * inner + q, *yi = s.yi + radix * p * inner + q;
      const V x = load(xr), y = load(xi);
      V sums[largest_radix / 2][4], re = x, im = y;
      for (int64_t j = 0; j < half; ++j) {
        const int64_t a = (j + 1) * span, b = (radix - 1 - j) * span;
        const V ar = load(xr + a), br = load(xr + b), ai = load(xi + a), bi = load(xi + b);
        V* sum = sums[j];
        sum[0] = ar + br, sum[1] = ai + bi, sum[2] = ar - br, sum[3] = ai - bi;
        re += sum[0], im += sum[1];
      }
      store(yr, re);
      store(yi, im);
      for (int64_t k = 1; k <= half; ++k) {
        V er = x, ei = y, fr{}, fi{};
        int64_t at = 0;
        for (int64_t j = 0; j < half; ++j) {
          at += k < radix - at ? k : k - radix;
          const T c = cosines[at], d = sines[at];
          er += c * sums[j][0], ei += c * sums[j][1];
          fi += d * sums[j][2], fr -= d * sums[j][3];
        }
        const auto rotated = [&](int64_t row, V a, V b) {
          const T c = s.wr[(row - 1) * s.m + p], d = s.wi[(row - 1) * s.m + p];
          store(yr + row * inner, a * c - b * d);
          store(yi + row * inner, a * d + b * c);
        };
        rotated(k, er + fr, ei + fi);
        rotated(radix - k, er - fr, ei - fi);
      }
    }
  }
}

// Two buffers of real and imaginary parts, the current and the spare one.
template <class T>
struct Lines {
  T *re, *im, *spare_re, *spare_im;

  void swap_buffers() { std::swap(re, spare_re), std::swap(im, spare_im); }
  void swap_parts() { std::swap(re, im), std::swap(spare_re, spare_im); }
};

template <class T>
class Plan {
 public:
  explicit Plan(int64_t n) : n_(n) {
    int64_t rest = n;
    const auto divided = [&](int64_t length, int64_t radix) {
      stages_.push_back({radix, 0, 0, 0});
      return length / radix;
    };
    // The first stage of a single line makes vector code, the second does if the first was large.
    // Later a large radix reads so many addresses, a power of two apart, that they push each other
    // out of the cache, unless all of them fit.
    if (rest % 8 == 0) rest = divided(rest, 8);
    while (n <= 2048 && (rest % 32 == 0 || (rest % 8 == 0 && rest % 16 != 0))) {
      rest = divided(rest, 8);
    }
    for (const int64_t radix : {4, 2, 3, 5, 7, 11, 13, 17, 19, largest_radix}) {
      while (rest % radix == 0) rest = divided(rest, radix);
    }
    if (rest > 1) {
      stages_.clear();
      prepare_convolution();
    } else {
      prepare_stages();
    }
  }

  [[nodiscard]] int64_t size() const { return n_; }
  [[nodiscard]] size_t bytes() const {
    const size_t numbers = table_.size() + 2 * (chirp_re_.size() + kernel_re_.size());
    return numbers * sizeof(T) + (inner_ ? inner_->bytes() : 0);
  }
  // Rows that the buffers need.
  [[nodiscard]] int64_t rows() const { return inner_ ? inner_->size() : n_; }

  // Whether lines alone, which make vector code, are better than several at once: those that are so
  // long that several leave the cache, and a few, which would not fill registers or keep threads
  // busy.
  [[nodiscard]] bool prefers_single_lines(int64_t count) const {
    const int64_t long_line = 8192, few_lines = 64;
    return n_ >= (count < few_lines ? 256 : long_line) && n_ % 8 == 0 && !inner_;
  }

  // Forward, on `lines` lines; the result is in the current buffer afterwards.
  void run(Lines<T>& x, int64_t lines) const {
    if (inner_) {
      convolve(x, lines);
      return;
    }
    int64_t inner = lines;
    for (const Stage& stage : stages_) {
      const StageBuffers<T> s{x.re,
                              x.im,
                              x.spare_re,
                              x.spare_im,
                              stage.m,
                              inner,
                              table_.data() + stage.twiddles,
                              table_.data() + stage.twiddles + (stage.radix - 1) * stage.m};
      switch (stage.radix) {
        case 2: stage2(s); break;
        case 3: stage3(s); break;
        case 4: stage4(s); break;
        case 5: stage5(s); break;
        case 8: stage8(s); break;
        default: run_prime(s, stage.radix, table_.data() + stage.roots); break;
      }
      x.swap_buffers();
      inner *= stage.radix;
    }
  }

 private:
  static void run_prime(const StageBuffers<T>& s, int64_t radix, const T* roots) {
    if (radix == 7) return stage_prime<7>(s, roots, roots + radix);
    if (radix == 11) return stage_prime<11>(s, roots, roots + radix);
    if (radix == 13) return stage_prime<13>(s, roots, roots + radix);
    stage_large_prime(s, radix, roots, roots + radix);
  }

  struct Stage {
    int64_t radix, m;
    int64_t twiddles, roots;  // offsets into the table
  };

  void prepare_stages() {
    int64_t size = n_;
    table_.reserve(2 * (n_ + largest_radix * stages_.size()));
    for (Stage& stage : stages_) {
      stage.m = size / stage.radix;
      stage.twiddles = static_cast<int64_t>(table_.size());
      const int64_t count = (stage.radix - 1) * stage.m;
      table_.resize(table_.size() + 2 * count);
      for (int64_t k = 1; k < stage.radix; ++k) {
        for (int64_t p = 0; p < stage.m; ++p) {
          const auto [re, im] = root_of_unity<T>(p * k, size);
          T* at = table_.data() + stage.twiddles + (k - 1) * stage.m + p;
          at[0] = re, at[count] = im;
        }
      }
      if (stage.radix % 2 == 1 && stage.radix > 5) {
        stage.roots = static_cast<int64_t>(table_.size());
        table_.resize(table_.size() + 2 * stage.radix);
        for (int64_t k = 0; k < stage.radix; ++k) {
          const auto [re, im] = root_of_unity<T>(k, stage.radix);
          table_[stage.roots + k] = re, table_[stage.roots + stage.radix + k] = im;
        }
      }
      size = stage.m;
    }
  }

  // jk = (j**2 + k**2 - (j - k)**2) / 2 turns the transform into a convolution with a chirp.
  void prepare_convolution() {
    int64_t length = 1;
    while (length < 2 * n_ - 1) length *= 2;
    inner_ = std::make_unique<Plan>(length);
    chirp_re_.resize(n_), chirp_im_.resize(n_);
    for (int64_t k = 0; k < n_; ++k) {
      const auto square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * k % (2 * n_));
      std::tie(chirp_re_[k], chirp_im_[k]) = root_of_unity<T>(square, 2 * n_);
    }
    Numbers<T> buffer(4 * length);
    Lines<T> x{&buffer[0], &buffer[length], &buffer[2 * length], &buffer[3 * length]};
    for (int64_t k = 0; k < n_; ++k) {
      const int64_t mirrored = k == 0 ? 0 : length - k;
      x.re[k] = x.re[mirrored] = chirp_re_[k] / static_cast<T>(length);
      x.im[k] = x.im[mirrored] = -chirp_im_[k] / static_cast<T>(length);
    }
    inner_->run(x, 1);
    kernel_re_.assign(x.re, x.re + length);
    kernel_im_.assign(x.im, x.im + length);
  }

  static void multiply_rows(T* re, T* im, const T* by_re, const T* by_im, int64_t rows,
                            int64_t lines) {
    for (int64_t k = 0; k < rows; ++k) {
      const T c = by_re[k], d = by_im[k];
      T *r = re + k * lines, *i = im + k * lines;
      IVDEP for (int64_t q = 0; q < lines; ++q) {
        const T a = r[q], b = i[q];
        r[q] = a * c - b * d;
        i[q] = a * d + b * c;
      }
    }
  }

  void convolve(Lines<T>& x, int64_t lines) const {
    const int64_t length = inner_->size();
    multiply_rows(x.re, x.im, chirp_re_.data(), chirp_im_.data(), n_, lines);
    std::fill(x.re + n_ * lines, x.re + length * lines, T(0));
    std::fill(x.im + n_ * lines, x.im + length * lines, T(0));
    inner_->run(x, lines);
    multiply_rows(x.re, x.im, kernel_re_.data(), kernel_im_.data(), length, lines);
    x.swap_parts();
    inner_->run(x, lines);
    x.swap_parts();
    multiply_rows(x.re, x.im, chirp_re_.data(), chirp_im_.data(), n_, lines);
  }

  int64_t n_;
  std::vector<Stage> stages_;
  Numbers<T> table_;
  std::unique_ptr<Plan> inner_;
  Numbers<T> chirp_re_, chirp_im_, kernel_re_, kernel_im_;
};

// The plan of a length, kept for the next time. The last few dozen stay, or fewer large ones.
template <class P>
std::shared_ptr<const P> plan_for(int64_t n) {
  constexpr size_t max_plans = 48, max_bytes = size_t{1} << 28;
  static std::mutex mutex;
  static std::list<std::shared_ptr<const P>> recent;
  const std::lock_guard lock(mutex);
  for (auto it = recent.begin(); it != recent.end(); ++it) {
    if ((*it)->size() != n) continue;
    recent.splice(recent.begin(), recent, it);
    return recent.front();
  }
  recent.push_front(std::make_shared<const P>(n));
  size_t plans = 0, bytes = 0;
  std::erase_if(recent, [&](const auto& plan) {
    bytes += plan->bytes();
    return ++plans > 1 && (plans > max_plans || bytes > max_bytes);
  });
  return recent.front();
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
