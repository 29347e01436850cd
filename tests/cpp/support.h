// What the tests of ops share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/base/warn.h"
#include "flambeau/torch.h"

// The statement raises an error of this type whose text holds these words.
#define EXPECT_ERROR(statement, type, words)                            \
  try {                                                                 \
    static_cast<void>(statement);                                       \
    ADD_FAILURE() << "no error: " #statement;                           \
  } catch (const type& error) {                                         \
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) \
        << "it says: " << error.what();                                 \
  }

namespace flambeau {

// 0, 1, 2, ... in a shape.
inline torch::Tensor count(IntSpan sizes, DType dtype = DType::float32) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return torch::arange(n, dtype).view(sizes);
}
inline torch::Tensor wanted(IntSpan sizes) { return count(sizes).requires_grad_(); }

inline torch::Tensor values(const std::vector<double>& items) {
  torch::Tensor made = torch::empty({static_cast<int64_t>(items.size())}, DType::float64);
  for (size_t i = 0; i < items.size(); ++i) made.data<double>()[i] = items[i];
  return made;
}
// Whether the elements are these numbers, in order.
inline bool holds(const torch::Tensor& tensor, const std::vector<double>& items) {
  return tensor.detach().to(DType::float64).flatten().allclose(values(items), 1e-5, 1e-7);
}

// What is warned of while it lives.
class Warnings {
 public:
  Warnings() {
    heard().clear();
    set_warn_handler([](const std::string& text) { heard().push_back(text); });
  }
  ~Warnings() { set_warn_handler(nullptr); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  [[nodiscard]] static std::vector<std::string>& heard() {
    static std::vector<std::string> texts;
    return texts;
  }
};

}  // namespace flambeau
