#include "flambeau/base/current_op.h"

namespace flambeau {

constinit thread_local const char* current_op = nullptr;

}  // namespace flambeau
