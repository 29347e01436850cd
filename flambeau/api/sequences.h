// Vectors on streams as libtorch writes them: their items, with spaces between.
#pragma once

#include <ostream>
#include <vector>

namespace std {  // where operators for its types are looked up  NOLINT

template <class T, class A>
ostream& operator<<(ostream& out, const vector<T, A>& items) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out << ' ';
    out << item;
    first = false;
  }
  return out;
}

}  // namespace std
