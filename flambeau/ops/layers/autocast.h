// autocast: while it is on for a kind of device, ops there that gain by it compute in half
// precision, and those that would lose too much by it in single; which do stands beside each op
// (OpDef::autocast_low and the like). Every thread has a state of its own.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

bool has_autocast(DeviceType type);  // the CPU and CUDA

bool autocast_enabled(DeviceType type);
bool any_autocast_enabled();
void set_autocast_enabled(DeviceType type, bool enabled);
DType autocast_dtype(DeviceType type);  // the half precision
void set_autocast_dtype(DeviceType type, DType dtype);

// Leaves that require gradients are cast once for all their uses, until the outermost region ends.
bool autocast_cache_enabled();
void set_autocast_cache_enabled(bool enabled);
void clear_autocast_cache();
int increment_autocast_nesting();  // both give the depth that is reached
int decrement_autocast_nesting();

// A region of a C++ program: AutocastGuard region(DeviceType::cpu, DType::bfloat16);
class AutocastGuard {
 public:
  explicit AutocastGuard(DeviceType type, bool enabled = true)
      : AutocastGuard(type, autocast_dtype(type), enabled) {}
  AutocastGuard(DeviceType type, DType dtype, bool enabled = true, bool cache_enabled = true);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  DeviceType type_;
  bool enabled_before_, cache_before_;
  DType dtype_before_;
};

}  // namespace flambeau
