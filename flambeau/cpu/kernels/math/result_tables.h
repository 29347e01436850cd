// Functions of numbers of 16 bits have 65,536 results: where a large tensor asks for a costly one,
// they are computed once, kept, and looked up, if this processor looks them up faster than it
// computes them.
#pragma once

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "flambeau/cpu/kernels/elementwise/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {

class ResultTable {
 public:
  // From what cost and how many elements on; most fit the first-level cache, as their exponents
  // are few.
  static constexpr int min_cost = 8;
  static constexpr int64_t min_elements = 1 << 20;
  static bool serves(const TensorIter& iter, const ElementwiseLoop& loop, int cost) {
    return loop.inputs == 1 && cost >= min_cost && iter.numel >= min_elements &&
           iter.dtypes[0] == iter.dtypes[1] && dtypes::Reduced.has(iter.dtypes[1]);
  }

  // The results of a loop over elements as they are stored.
  ResultTable(const ElementwiseLoop& stored, const void* formula) {
    std::vector<uint16_t> all(numbers);
    std::iota(all.begin(), all.end(), uint16_t{0});
    char* const data[] = {reinterpret_cast<char*>(results_.data()),
                          reinterpret_cast<char*>(all.data())};
    stored.row(formula, data, numbers, false);
    // By far: looking up suffers more from what shares the core and its first-level cache.
    is_faster_ = 4 * time_of(in_place_of(stored), this) < 3 * time_of(stored, formula);
  }
  bool is_faster() const { return is_faster_; }

  // The loop in the place of one that may say how it is best done. It writes non-temporally itself.
  static ElementwiseLoop in_place_of(const ElementwiseLoop& loop) {
    return {1, {sizeof(uint16_t), sizeof(uint16_t)}, loop.look_up ? loop.look_up : look_up_all};
  }

  // Looks up all results.
  static void look_up_all(const void* table, char* const* data, int64_t n, bool non_temporal) {
#if FLAMBEAU_ISA_RANK >= 4
    if (gathers_fast()) return look_up<All>(table, data, n, non_temporal);
#endif
    const auto& results = static_cast<const ResultTable*>(table)->results_;
    auto* out = reinterpret_cast<uint16_t*>(data[0]);
    const auto* x = reinterpret_cast<const uint16_t*>(data[1]);
    typedef uint16_t Eight __attribute__((vector_size(16)));
    int64_t i = 0;
    for (; non_temporal && i < n && reinterpret_cast<uintptr_t>(out + i) % 64; ++i) {
      out[i] = results[x[i]];
    }
    for (; i + 8 <= n; i += 8) {
      if (i % 32 == 0) ask_ahead(x, i);
      uint64_t a, b;
      std::memcpy(&a, x + i, sizeof a);
      std::memcpy(&b, x + i + 4, sizeof b);
      const auto at = [&](uint64_t four, int k) { return results[four >> (16 * k) & 0xffff]; };
      const Eight found{at(a, 0), at(a, 1), at(a, 2), at(a, 3),
                        at(b, 0), at(b, 1), at(b, 2), at(b, 3)};
      auto* to = reinterpret_cast<__m128i*>(out + i);
      if (non_temporal) {
        _mm_stream_si128(to, std::bit_cast<__m128i>(found));
      } else {
        _mm_storeu_si128(to, std::bit_cast<__m128i>(found));
      }
    }
    for (; i < n; ++i) out[i] = results[x[i]];
  }

#if FLAMBEAU_ISA_RANK >= 4
  // Looks up both of each two results (All), or the first one beside a short formula F for the
  // other: memory is asked for the former, and the units of arithmetic for the latter.
  struct All {};
  template <class F>
  static void look_up(const void* table, char* const* data, int64_t n, bool non_temporal) {
    const auto& results = static_cast<const ResultTable*>(table)->results_;
    auto* out = reinterpret_cast<uint16_t*>(data[0]);
    const auto* x = reinterpret_cast<const uint16_t*>(data[1]);
    int64_t i = 0;
    for (; non_temporal && i < n && reinterpret_cast<uintptr_t>(out + i) % register_bytes; ++i) {
      out[i] = results[x[i]];
    }
    // Two of them are looked up as the halves of a word.
    const auto found = [&](Words index) {
      return std::bit_cast<Words>(_mm512_mask_i32gather_epi32(
          __m512i{}, 0xffff, std::bit_cast<__m512i>(index), results.data(), sizeof(uint16_t)));
    };
    for (; i + 2 * float_lanes <= n; i += 2 * float_lanes) {
      ask_ahead(x, i);
      Words pairs;
      std::memcpy(&pairs, x + i, sizeof pairs);
      Words seconds;
      if constexpr (std::is_same_v<F, All>) {
        seconds = found(pairs >> 16) << 16;
      } else {
        seconds = rounded_words(F()(std::bit_cast<Floats>(pairs & 0xffff0000u))) & 0xffff0000u;
      }
      pairs = (found(pairs & 0xffffu) & 0xffffu) | seconds;
      if (non_temporal) {
        stream_floats(std::bit_cast<Floats>(pairs), reinterpret_cast<float*>(out + i));
      } else {
        std::memcpy(out + i, &pairs, sizeof pairs);
      }
    }
    for (; i < n; ++i) out[i] = results[x[i]];
  }
#endif

 private:
  // The least time that a loop takes over ordinary numbers, whatever else the machine does.
  using Clock = std::chrono::steady_clock;
  static Clock::duration time_of(const ElementwiseLoop& loop, const void* formula) {
    // From 2^-15 in bfloat16 and from 1/2 in float16 to some units.
    constexpr int first = 0x3800, count = 0x900, times = 8;
    std::array<uint16_t, count> x, out;
    std::iota(x.begin(), x.end(), uint16_t{first});
    char* const data[] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(x.data())};
    Clock::duration least = Clock::duration::max();
    for (int i = 0; i < times; ++i) {
      const auto start = Clock::now();
      loop.row(formula, data, count, false);
      least = std::min(least, Clock::now() - start);
    }
    return least;
  }

  static constexpr int numbers = 1 << 16;
  std::array<uint16_t, numbers + 1> results_{};  // the last is read as half of a word
  bool is_faster_;
};

// Those that were asked for last.
class ResultTables {
 public:
  using Found = std::shared_ptr<const ResultTable>;
  // That of a formula, which `make` computes if it is not kept. Null while another thread looks
  // for one: that, or what a process forked meanwhile inherits, is not waited for.
  template <class Make>
  Found find(const ElementwiseLoop& loop, DType dtype, const void* formula, Make make) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    const Key key{&loop, dtype, {static_cast<const char*>(formula), loop.formula_bytes}};
    auto at = std::find_if(kept_.begin(), kept_.end(), [&](auto& one) { return one.first == key; });
    if (at == kept_.end()) {
      if (kept_.size() == most) kept_.pop_back();
      at = kept_.insert(kept_.end(), {key, std::make_shared<const ResultTable>(make())});
    }
    std::rotate(kept_.begin(), at, at + 1);
    return kept_.front().second;
  }

 private:
  struct Key {
    const ElementwiseLoop* loop;
    DType dtype;
    std::string formula;
    bool operator==(const Key&) const = default;
  };
  static constexpr size_t most = 32;
  std::mutex mutex_;
  std::vector<std::pair<Key, Found>> kept_;
};

}  // namespace flambeau::cpu::ISA_NAMESPACE
