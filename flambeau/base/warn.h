// Warnings: told to whoever has asked to hear them (a front end turns them into its own), or else
// written to the standard error stream.
#pragma once

#include <atomic>
#include <string>

namespace flambeau {

using WarnHandler = void (*)(const std::string& text);

void warn(const std::string& text);

// A warning that is given the first time only: `told` is a static of the place that gives it.
// With set_warn_always(true) it is given every time.
void warn_once(std::atomic<bool>& told, const std::string& text);
void set_warn_always(bool always);

void set_warn_handler(WarnHandler handler);

}  // namespace flambeau
