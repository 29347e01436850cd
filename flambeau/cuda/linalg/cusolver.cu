#include "flambeau/cuda/linalg/cusolver.h"

namespace flambeau::cuda {
namespace {

struct DeviceHandles {
  std::mutex mutex;
  SolverHandle solver = nullptr;
  SolverParams params = nullptr;
  cublasHandle_t blas = nullptr;
};

DeviceHandles& handles_of(int device) {
  static auto* all = new std::vector<DeviceHandles>(device_count());
  return (*all)[device];
}

}  // namespace

const Library& solver_library() {
  static const Library library("cuSOLVER", "libcusolver.so.12", "nvidia-cusolver");
  return library;
}

const GenericSolver& generic_solver() {
  static const GenericSolver functions = [] {
    const Library& library = solver_library();
    GenericSolver found{};
    library.take(found.create, "cusolverDnCreate");
    library.take(found.set_stream, "cusolverDnSetStream");
    library.take(found.create_params, "cusolverDnCreateParams");
    library.take(found.syev_batched_size, "cusolverDnXsyevBatched_bufferSize");
    library.take(found.syev_batched, "cusolverDnXsyevBatched");
    library.take(found.geev_size, "cusolverDnXgeev_bufferSize");
    library.take(found.geev, "cusolverDnXgeev");
    return found;
  }();
  return functions;
}

SolverGuard::SolverGuard(int device) : device_(device) {
  const GenericSolver& library = generic_solver();
  DeviceHandles& handles = handles_of(device);
  lock_ = std::unique_lock(handles.mutex);
  if (!handles.blas) {
    check_solver(library.create(&handles.solver), "cusolverDnCreate");
    check_solver(library.create_params(&handles.params), "cusolverDnCreateParams");
    check_blas(cublasCreate(&handles.blas), "cublasCreate");
  }
  solver_ = handles.solver, params_ = handles.params, blas_ = handles.blas;
  const cudaStream_t stream = current_handle(device);
  check_solver(library.set_stream(solver_, stream), "cusolverDnSetStream");
  check_blas(cublasSetStream(blas_, stream), "cublasSetStream");
}

}  // namespace flambeau::cuda
