#include "flambeau/autograd/stream_follower.h"

#include <algorithm>

#include "flambeau/base/check.h"
#include "flambeau/tensor/side_stream.h"

namespace flambeau {
namespace {

void change(Accelerator& device, const Stream& from, const Stream& to) {
  Event mark;
  device.record_event(mark, from);
  device.stream_waits(to, mark);
  device.destroy_event(mark);
  device.set_current_stream(to);
}

}  // namespace

void StreamFollower::follow(const Node& node) {
  if (node.stream == 0 && !uses_side_streams) [[likely]]
    return;
  if (node.variable || node.inputs.empty() || !node.inputs[0].device.is_cuda()) return;
  const int index = node.inputs[0].device.index;
  Accelerator& device = accelerator(DeviceType::cuda);
  const Stream now = device.current_stream(index);
  if (now.id == node.stream) return;
  const bool known = std::any_of(left_.begin(), left_.end(),
                                 [&](const Stream& s) { return s.device.index == index; });
  if (!known) left_.push_back(now);
  change(device, now, device.stream_of_id(index, node.stream));
}

void StreamFollower::go_back() noexcept {
  for (const Stream& first : left_) {
    try {
      Accelerator& device = accelerator(DeviceType::cuda);
      const Stream now = device.current_stream(first.device.index);
      if (!(now == first)) change(device, now, first);
    } catch (const Error&) {
      // The device has failed, and whoever waits for it will be told.
    }
  }
  left_.clear();
}

}  // namespace flambeau
