// Libraries of other vendors, such as CUDA's: where the system has them, or in the folders that the
// front end knows of (Python's packages).
#pragma once

#include <string>
#include <vector>

namespace flambeau {

// Folders to look into after the system's own, in this order.
void set_vendor_folders(std::vector<std::string> folders);

// The handle of a library, found by its file name; null if it is nowhere.
void* open_vendor_library(const char* name);

}  // namespace flambeau
