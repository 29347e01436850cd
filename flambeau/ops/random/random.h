// What the random ops share: checked draws into a tensor, without autograd. Creation ops, in-place
// ops and dropout are built of these. On the meta device they neither check nor draw.
#pragma once

#include <mutex>
#include <optional>

#include "flambeau/tensor/generator.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// A null generator stands for the default one of the tensor's device. Complex tensors are filled
// part by part.
void draw_uniform(const Tensor& out, double from, double to, Generator* generator);
void draw_normal(const Tensor& out, double mean, double std, Generator* generator);
// `hit` with probability p, else 0.
void draw_bernoulli(const Tensor& out, double p, Generator* generator, double hit = 1.0);
// p is broadcast to the shape of `out`.
void draw_bernoulli(const Tensor& out, const Tensor& p, Generator* generator);
// Integers of [from, to), or from `from` to the largest that the dtype holds exactly.
void draw_integers(const Tensor& out, int64_t from, std::optional<int64_t> to,
                   Generator* generator);
// Integers from 0 to the largest that the dtype holds exactly, with as few words as it needs.
void draw_integers(const Tensor& out, Generator* generator);
void draw_exponential(const Tensor& out, double rate, Generator* generator);

// Then PyTorch does not ask whether the dtype can be drawn either.
inline bool nothing_to_draw(const Tensor& out) {
  return out.device().is_meta() || out.numel() == 0;
}

// The generator that `device` wants, or an error if the given one is of another device.
Generator& generator_for(Device device, Generator* given);

// Calls draw(generator) with the generator to use and its mutex held.
template <class Draw>
void with_generator(const Tensor& out, Generator* given, Draw&& draw) {
  if (nothing_to_draw(out)) return;
  Generator& generator = generator_for(out.device(), given);
  const std::lock_guard lock(generator.mutex());
  draw(generator);
}

// How PyTorch's messages call the element type: "long int".
std::string_view cpp_name(DType dtype);

}  // namespace flambeau
