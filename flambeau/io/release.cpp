// How an unpickler lets its result go: a graph of containers whose destructors will not run too
// deep.
#include <algorithm>
#include <unordered_map>

#include "flambeau/io/pickle.h"

namespace flambeau::io {
namespace {

// The containers that a container holds.
std::vector<const IValue*> children_of(const IValue& value) {
  std::vector<const IValue*> found;
  const auto add = [&](const IValue& child) {
    if (child.compound()) found.push_back(&child);
  };
  const auto add_pairs = [&](const std::vector<std::pair<IValue, IValue>>& pairs) {
    for (const auto& [key, item] : pairs) add(key), add(item);
  };
  if (value.isGenericDict()) {
    add_pairs(value.pairs().pairs);
    add(value.pairs().attributes);
  } else if (value.isObject()) {
    const auto& object = value.as<ivalue::Object>();
    add(object.arguments), add(object.state);
    for (const IValue& item : object.appended) add(item);
    add_pairs(object.set);
  } else {
    for (const IValue& item : value.items()) add(item);
  }
  return found;
}

// How deep each container of a graph is, without recursion.
class Depths {
 public:
  // -1 if one holds itself.
  int run(const IValue& root) {
    if (!root.compound()) return 0;
    std::vector<Frame> frames;
    frames.push_back({&root, children_of(root)});
    found_[root.identity()] = on_the_way;
    int last = 0;
    while (!frames.empty()) {
      Frame& frame = frames.back();
      if (frame.next == frame.children.size()) {
        last = frame.deepest + 1;
        found_[frame.value->identity()] = last;
        frames.pop_back();
        if (!frames.empty()) frames.back().deepest = std::max(frames.back().deepest, last);
        continue;
      }
      const IValue* child = frame.children[frame.next++];
      const auto [found, fresh] = found_.try_emplace(child->identity(), on_the_way);
      if (fresh) {
        frames.push_back({child, children_of(*child)});
      } else if (found->second == on_the_way) {
        return -1;
      } else {
        frame.deepest = std::max(frame.deepest, found->second);
      }
    }
    return last;
  }
  [[nodiscard]] bool met(const IValue& value) const { return found_.contains(value.identity()); }

 private:
  struct Frame {
    const IValue* value;
    std::vector<const IValue*> children;
    size_t next = 0;
    int deepest = 0;
  };
  static constexpr int on_the_way = -1;
  std::unordered_map<const void*, int> found_;
};

}  // namespace

IValue Unpickler::release(const IValue& loaded) {
  Depths depths;
  const int depth = depths.run(loaded);
  if (depth < 0) refuse("a container holds itself");
  if (depth > deepest) refuse("containers lie too deep in one another");
  IValue result = loaded;
  stack_.clear();
  memo_.clear();
  // What is no part of the result may be as deep as it likes: it is taken apart in the end.
  std::erase_if(made_, [&](const IValue& value) { return depths.met(value); });
  return result;
}

}  // namespace flambeau::io
