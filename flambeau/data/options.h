// The options of a loader.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "flambeau/nn/option.h"

namespace flambeau::torch::data {

struct DataLoaderOptions {
  DataLoaderOptions() = default;
  DataLoaderOptions(size_t batch_size) : batch_size_(batch_size) {}  // NOLINT
  FLAMBEAU_OPTION(size_t, batch_size) = 1;
  FLAMBEAU_OPTION(size_t, workers) = 0;  // threads; without any the caller does the work
  FLAMBEAU_OPTION(std::optional<size_t>, max_jobs);  // prefetched batches: 2 for each worker
  FLAMBEAU_OPTION(std::optional<std::chrono::milliseconds>, timeout);
  FLAMBEAU_OPTION(bool, enforce_ordering) = true;
  FLAMBEAU_OPTION(bool, drop_last) = false;
};

// The same with what was left open filled in.
struct FullDataLoaderOptions {
  explicit FullDataLoaderOptions(const DataLoaderOptions& options)
      : batch_size(options.batch_size()),
        workers(options.workers()),
        max_jobs(options.max_jobs().value_or(2 * workers)),
        timeout(options.timeout()),
        enforce_ordering(options.enforce_ordering()),
        drop_last(options.drop_last()) {}
  size_t batch_size, workers, max_jobs;
  std::optional<std::chrono::milliseconds> timeout;
  bool enforce_ordering, drop_last;
};

}  // namespace flambeau::torch::data
