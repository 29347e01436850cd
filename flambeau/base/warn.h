// Warnings: told to whoever has asked to hear them (a front end turns them into its own), or else
// written to the standard error stream.
#pragma once

#include <string>

namespace flambeau {

using WarnHandler = void (*)(const std::string& text);

void warn(const std::string& text);
void set_warn_handler(WarnHandler handler);

}  // namespace flambeau
