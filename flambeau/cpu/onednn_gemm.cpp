// Products of floats and of bfloat16 through oneDNN.
#include <cpuid.h>
#include <omp.h>

#include <cstdlib>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/gemm.h"
#include "flambeau/cpu/onednn.h"

namespace flambeau::cpu {
namespace {

// Some virtual machines announce AMX but do not describe its tiles (CPUID leaf 0x1d), which oneDNN
// then configures with no rows: an illegal instruction. There, and unless the user has chosen an
// instruction set, oneDNN is to do without; it has to be told before its first use.
const bool tiles_are_described = [] {
  unsigned int palette = 0, names = 0, rows = 0, unused = 0;
  const bool described = __get_cpuid_count(0x1d, 1, &palette, &names, &rows, &unused) && rows > 0;
  if (!described && !std::getenv("ONEDNN_MAX_CPU_ISA") && !std::getenv("DNNL_MAX_CPU_ISA"))
    dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_fp16);
  return described;
}();

// Not what the processor has: ONEDNN_MAX_CPU_ISA may keep oneDNN from using it.
bool has_isa(int needed) { return (dnnl_get_effective_cpu_isa() & needed) == needed; }

}  // namespace

void sgemm(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<const float> a,
           BlasMatrix<const float> b, float beta, float* out, int64_t ld_out) {
  // OpenMP keeps the number of threads per calling thread; ours is one number for the process.
  omp_set_num_threads(get_num_threads());
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n,
                                          k, alpha, a.data, a.ld, b.data, b.ld, beta, out, ld_out);
  CHECK(status == dnnl_success, RuntimeError,
        "mm: oneDNN refused a product of {}x{} and {}x{} (status {})", m, k, k, n,
        static_cast<int>(status));
}

bool has_bgemm() {
  static const bool has = has_isa(dnnl_cpu_isa_avx512_core);
  return has;
}
bool has_tiles() {
  static const bool has = has_isa(dnnl_cpu_isa_avx512_core_amx);
  return has;
}

namespace {

using dnnl::memory;

struct Plan {
  dnnl::primitive primitive;
  memory::desc a, b, out, bias, scratchpad;
};

memory::desc describe(const BlasMatrix<const BFloat16>& x, int64_t rows, int64_t cols) {
  const memory::dims strides = x.transposed ? memory::dims{1, x.ld} : memory::dims{x.ld, 1};
  return {{rows, cols}, memory::data_type::bf16, strides};
}

}  // namespace

void bgemm(int64_t m, int64_t n, int64_t k, BlasMatrix<const BFloat16> a,
           BlasMatrix<const BFloat16> b, void* out, int64_t ld_out, DType out_dtype,
           const BFloat16* bias) {
  static PlanCache<Plan> plans;
  omp_set_num_threads(get_num_threads());
  const PlanKey key{m,
                    n,
                    k,
                    a.transposed,
                    a.ld,
                    b.transposed,
                    b.ld,
                    ld_out,
                    static_cast<int64_t>(out_dtype),
                    bias != nullptr,
                    get_num_threads(),
                    in_parallel_region()};
  const auto plan = plans.find_or_make(key, [&] {
    Plan made{{},
              describe(a, m, k),
              describe(b, k, n),
              {{m, n}, data_type(out_dtype), memory::dims{ld_out, 1}},
              {},
              {}};
    if (bias) made.bias = {{1, n}, memory::data_type::bf16, memory::dims{n, 1}};
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc description =
        bias ? dnnl::matmul::primitive_desc(engine(), made.a, made.b, made.bias, made.out,
                                            attributes)
             : dnnl::matmul::primitive_desc(engine(), made.a, made.b, made.out, attributes);
    made.primitive = dnnl::primitive(description.get());
    made.scratchpad = description.scratchpad_desc();
    return made;
  });
  const memory left(plan->a, engine(), const_cast<BFloat16*>(a.data));
  const memory right(plan->b, engine(), const_cast<BFloat16*>(b.data));
  const memory result(plan->out, engine(), out);
  const Bytes scratch(plan->scratchpad.get_size());
  const memory scratchpad(plan->scratchpad, engine(), scratch.data());
  const memory added = bias ? memory(plan->bias, engine(), const_cast<BFloat16*>(bias)) : memory();
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, left.get()},
                                       {DNNL_ARG_WEIGHTS, right.get()},
                                       {DNNL_ARG_DST, result.get()},
                                       {DNNL_ARG_SCRATCHPAD, scratchpad.get()},
                                       {DNNL_ARG_BIAS, added.get(true)}};
  const dnnl_status_t status =
      dnnl_primitive_execute(plan->primitive.get(), stream().get(), bias ? 5 : 4, arguments);
  CHECK(status == dnnl_success, RuntimeError,
        "mm: oneDNN failed on a product of {}x{} and {}x{} (status {})", m, k, k, n,
        static_cast<int>(status));
}

}  // namespace flambeau::cpu
