// Containers on streams as libtorch writes them: their items, with spaces between.
#pragma once

#include <map>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

namespace std {  // where operators for its types are looked up  NOLINT

template <class First, class Second>
ostream& operator<<(ostream& out, const pair<First, Second>& items);

#define FLAMBEAU_ON_STREAMS(container)                              \
  template <class... T>                                             \
  ostream& operator<<(ostream& out, const container<T...>& items) { \
    const char* between = "";                                       \
    for (const auto& item : items) {                                \
      out << between << item;                                       \
      between = " ";                                                \
    }                                                               \
    return out;                                                     \
  }
FLAMBEAU_ON_STREAMS(vector)
FLAMBEAU_ON_STREAMS(map)
FLAMBEAU_ON_STREAMS(set)
#undef FLAMBEAU_ON_STREAMS

template <class First, class Second>
ostream& operator<<(ostream& out, const pair<First, Second>& items) {
  return out << '(' << items.first << ", " << items.second << ')';
}

}  // namespace std
