// Words that options take, each a type of its own so that a variant of some of them says which an
// option allows: reduction(kSum). name_of() is Python's word for it, which ops take.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "flambeau/base/check.h"

namespace flambeau::torch {

#define FLAMBEAU_WORD(name, text)                  \
  namespace enumtype {                             \
  struct name {                                    \
    static constexpr std::string_view word = text; \
    static constexpr std::string_view own = #name; \
    bool operator==(const name&) const = default;  \
  };                                               \
  }                                                \
  inline constexpr enumtype::name name{};

FLAMBEAU_WORD(kLinear, "linear")
FLAMBEAU_WORD(kConv1D, "conv1d")
FLAMBEAU_WORD(kConv2D, "conv2d")
FLAMBEAU_WORD(kConv3D, "conv3d")
FLAMBEAU_WORD(kConvTranspose1D, "conv_transpose1d")
FLAMBEAU_WORD(kConvTranspose2D, "conv_transpose2d")
FLAMBEAU_WORD(kConvTranspose3D, "conv_transpose3d")
FLAMBEAU_WORD(kSigmoid, "sigmoid")
FLAMBEAU_WORD(kTanh, "tanh")
FLAMBEAU_WORD(kReLU, "relu")
FLAMBEAU_WORD(kGELU, "gelu")
FLAMBEAU_WORD(kSiLU, "silu")
FLAMBEAU_WORD(kMish, "mish")
FLAMBEAU_WORD(kLeakyReLU, "leaky_relu")
FLAMBEAU_WORD(kFanIn, "fan_in")
FLAMBEAU_WORD(kFanOut, "fan_out")
FLAMBEAU_WORD(kConstant, "constant")
FLAMBEAU_WORD(kReflect, "reflect")
FLAMBEAU_WORD(kReplicate, "replicate")
FLAMBEAU_WORD(kCircular, "circular")
FLAMBEAU_WORD(kNearest, "nearest")
FLAMBEAU_WORD(kBilinear, "bilinear")
FLAMBEAU_WORD(kBicubic, "bicubic")
FLAMBEAU_WORD(kTrilinear, "trilinear")
FLAMBEAU_WORD(kArea, "area")
FLAMBEAU_WORD(kNearestExact, "nearest-exact")
FLAMBEAU_WORD(kSum, "sum")
FLAMBEAU_WORD(kMean, "mean")
FLAMBEAU_WORD(kMax, "max")
FLAMBEAU_WORD(kNone, "none")
FLAMBEAU_WORD(kBatchMean, "batchmean")
FLAMBEAU_WORD(kZeros, "zeros")
FLAMBEAU_WORD(kBorder, "border")
FLAMBEAU_WORD(kReflection, "reflection")
FLAMBEAU_WORD(kRNN_TANH, "rnn_tanh")
FLAMBEAU_WORD(kRNN_RELU, "rnn_relu")
FLAMBEAU_WORD(kLSTM, "lstm")
FLAMBEAU_WORD(kGRU, "gru")
FLAMBEAU_WORD(kValid, "valid")
FLAMBEAU_WORD(kSame, "same")
#undef FLAMBEAU_WORD

namespace enumtype {

// One of several words, where nobody asks for it by its type: quicker to compile than a variant.
template <class... Words>
class OneOf {
 public:
  template <class Word>
  requires(std::is_same_v<Word, Words> || ...) OneOf(Word) : word_(Word::word) {}  // NOLINT
  [[nodiscard]] std::string_view word() const { return word_; }

 private:
  std::string_view word_;
};
template <class... Words>
std::string_view name_of(const OneOf<Words...>& words) {
  return words.word();
}

template <class... Words>
std::string_view name_of(const std::variant<Words...>& words) {
  return std::visit([](const auto& word) { return word.word; }, words);
}
template <class... Words>
std::string get_enum_name(const std::variant<Words...>& words) {  // "kSum"
  return std::visit([](const auto& word) { return std::string(word.own); }, words);
}

// What ops take for a reduction: 0 none, 1 mean, 2 sum.
template <class... Words>
int64_t reduction_get_enum(const std::variant<Words...>& words) {
  const std::string_view word = name_of(words);
  if (word == "none") return 0;
  if (word == "mean") return 1;
  CHECK(word == "sum", RuntimeError, "{} is not a valid value for reduction", word);
  return 2;
}

}  // namespace enumtype
}  // namespace flambeau::torch
