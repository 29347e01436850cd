// Backward runs in the streams that forward ran in. The engine runs one node after the other, and
// each change of streams lets the new one wait for the old: what a node reads is there, and memory
// that is freed on the way is reused in order.
#pragma once

#include <vector>

#include "flambeau/autograd/node.h"
#include "flambeau/tensor/accelerator.h"

namespace flambeau {

class StreamFollower {
 public:
  StreamFollower() = default;
  ~StreamFollower() { go_back(); }
  StreamFollower(const StreamFollower&) = delete;
  StreamFollower& operator=(const StreamFollower&) = delete;

  // Makes the stream that the node's forward ran in current. Accumulators run where they are.
  void follow(const Node& node);
  void go_back() noexcept;  // to the streams that were current at first

 private:
  std::vector<Stream> left_;  // the streams at first, of devices whose stream was changed
};

}  // namespace flambeau
