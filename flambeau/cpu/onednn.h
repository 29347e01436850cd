// What our uses of oneDNN share: the engine, a stream a thread, and a cache of prepared primitives.
#pragma once

#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "flambeau/tensor/tensor.h"

namespace flambeau::cpu {

inline dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
inline dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

inline dnnl::memory::data_type data_type(DType dtype) {
  return dtype == DType::bfloat16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// Bytes that live for one call.
class Bytes {
 public:
  explicit Bytes(size_t count)
      : tensor_(count ? make_tensor({static_cast<int64_t>(count)}, DType::uint8, Device{})
                      : Tensor()) {}
  [[nodiscard]] void* data() const { return tensor_.defined() ? tensor_.raw() : nullptr; }

 private:
  Tensor tensor_;
};

// Everything that a plan depends on, as numbers.
using PlanKey = std::vector<int64_t>;

template <class Plan>
class PlanCache {
 public:
  template <class Make>
  std::shared_ptr<const Plan> find_or_make(PlanKey key, const Make& make) {
    {
      const std::lock_guard guard(lock_);
      if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    }
    auto plan = std::make_shared<const Plan>(make());
    const std::lock_guard guard(lock_);
    if (plans_.size() >= max_plans) plans_.clear();
    return plans_.try_emplace(std::move(key), std::move(plan)).first->second;
  }

 private:
  static constexpr size_t max_plans = 2048;
  struct Hash {
    size_t operator()(const PlanKey& key) const {
      uint64_t hash = 0xcbf29ce484222325u;
      for (const int64_t value : key) hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3u;
      return hash;
    }
  };
  std::mutex lock_;
  std::unordered_map<PlanKey, std::shared_ptr<const Plan>, Hash> plans_;
};

}  // namespace flambeau::cpu
