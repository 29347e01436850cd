// The op that this thread called last: whoever asks for memory can be told by it when there is no
// more. A hint for people, never for programs.
#pragma once

#include <string_view>

namespace flambeau {

// The op's name or signature: text that lives on. Null before the first.
extern constinit thread_local const char* current_op;

// The name alone.
inline std::string_view op_name(const char* op) {
  const std::string_view text = op ? op : "unknown";
  return text.substr(0, text.find_first_of("(."));
}

}  // namespace flambeau
