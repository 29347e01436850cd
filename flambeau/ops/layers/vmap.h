// vmap: a function of single samples as a function of batches. The function runs once, with batched
// tensors (Note [Batched tensors] in tensor/batched.h) that look like one sample.
//
// Each op that is given one is computed for all samples at once: by its kind, which stands beside
// the op, or by a rule of its own (BATCH); an op with neither is called sample by sample, and
// warns.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "flambeau/tensor/tensor.h"

namespace flambeau {

enum class Randomness : uint8_t { error, same, different };

struct VmapLevel {
  int64_t size;
  Randomness randomness;
  int outer = 0;  // the level that it was entered from
};

// The levels of this thread, from the outermost on. Entering gives the number of the new one.
int enter_vmap(int64_t size, Randomness randomness);
void leave_vmap();
int current_vmap_level();  // 0 outside of vmap
const VmapLevel& vmap_level(int level);

int set_vmap_level(int level);  // goes to one of them; gives the one before

// While it lives, this thread is at another of its levels: a rule computes with what is behind.
class AtVmapLevel {
 public:
  explicit AtVmapLevel(int level) : before_(set_vmap_level(level)) {}
  ~AtVmapLevel() { set_vmap_level(before_); }
  AtVmapLevel(const AtVmapLevel&) = delete;
  AtVmapLevel& operator=(const AtVmapLevel&) = delete;

 private:
  int before_;
};

// `tensor` as one of its samples, which are counted along `dim`; and a result with its samples
// along `dim`, repeated where they are all the same.
Tensor add_batch_dim(const Tensor& tensor, int64_t dim, int level);
Tensor remove_batch_dim(const Tensor& tensor, int level, int64_t size, int64_t dim);

// The samples of all levels that are entered, the outermost ones in front, and the sample of such a
// tensor: derivatives are those of what is behind.
Tensor whole_batch(const Tensor& tensor);
Tensor as_samples(const Tensor& whole);

// How often an op was called sample by sample, by its name, in all threads.
std::vector<std::pair<std::string, int64_t>> vmap_fallbacks();
bool set_vmap_fallback_warning(bool enabled);  // gives what it was before

// The result of a function of tensors for all samples, which the first dimension of each argument
// counts, and of the result too.
template <class F, class... Tensors>
Tensor vmap(F&& function, Randomness randomness, const Tensor& first, const Tensors&... others) {
  struct Level {
    explicit Level(int64_t size, Randomness randomness) : number(enter_vmap(size, randomness)) {}
    ~Level() { leave_vmap(); }
    int number;
  };
  const Level level(first.size(0), randomness);
  const Tensor result =
      function(add_batch_dim(first, 0, level.number), add_batch_dim(others, 0, level.number)...);
  return remove_batch_dim(result, level.number, first.size(0), 0);
}

}  // namespace flambeau
