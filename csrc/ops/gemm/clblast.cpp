// CLBlast (github.com/CNugteren/CLBlast), where the library was built with it: tuned for many GPUs, no epilogues.
#include "opencl/command_list.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gemm/algorithms.h"

#if TORCH_OCL_CLBLAST

#include <clblast.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace ocl::ops::gemm_detail {
namespace {

// Row-major operand: transposed when its rows are what is contiguous; CLBlast wants leading dimensions that cover a
// row.
struct Operand {
  bool fits, transposed;
  size_t leading;
};
Operand operand_of(const MatrixStrides& s, int64_t rows, int64_t columns) {
  if (s[2] == 1 && (s[1] >= columns || rows == 1))
    return {true, false, static_cast<size_t>(rows == 1 ? columns : s[1])};
  if (s[1] == 1 && (s[2] >= rows || columns == 1)) return {true, true, static_cast<size_t>(columns == 1 ? rows : s[2])};
  return {false, false, 0};
}

const char* refuses(const GemmProblem& p) {
  if (p.dtype != DType::float32 && p.dtype != DType::float64) return "float32 and float64 only";
  if (p.activation != Activation::none) return "has no epilogue";
  if (p.k == 0) return "k is 0";
  const Operand c = operand_of(p.c, p.m, p.n);
  if (!operand_of(p.a, p.m, p.k).fits || !operand_of(p.b, p.k, p.n).fits || !c.fits || c.transposed)
    return "the strides do not fit";
  return nullptr;
}

// Its database has no CPU runtimes; there it is many times slower than the panel algorithm.
const char* declines(const PlanTarget& target) { return target.is_gpu ? nullptr : "tuned for GPUs only"; }

template <class T>
void run_as(Queue& queue, const GemmProblem& p, const GemmOperands& o) {
  const Operand a = operand_of(p.a, p.m, p.k), b = operand_of(p.b, p.k, p.n), c = operand_of(p.c, p.m, p.n);
  const Location la = locate(o.a), lb = locate(o.b), lc = locate(o.c);
  // A queue handle is passed by address; the call itself only enqueues.
  cl_command_queue handle = queue.handle();
  const T alpha = static_cast<T>(p.alpha.real()), beta = static_cast<T>(p.beta.real());
  auto transpose = [](bool yes) { return yes ? clblast::Transpose::kYes : clblast::Transpose::kNo; };
  for (const Location* l : {&la, &lb, &lc})
    if (l->offset % sizeof(T) != 0) throw InvalidArgument("gemm: operand is not aligned to its element type");
  for (int64_t i = 0; i < p.batch; ++i) {
    const auto status = clblast::Gemm<T>(clblast::Layout::kRowMajor, transpose(a.transposed), transpose(b.transposed),
                                         p.m, p.n, p.k, alpha, la.buffer, la.offset / sizeof(T) + i * p.a[0], a.leading,
                                         lb.buffer, lb.offset / sizeof(T) + i * p.b[0], b.leading, beta, lc.buffer,
                                         lc.offset / sizeof(T) + i * p.c[0], c.leading, &handle, nullptr);
    if (status != clblast::StatusCode::kSuccess)
      throw Unsupported("gemm: CLBlast failed with status " + std::to_string(static_cast<int>(status)));
    queue.issued();
  }
}

// CLBlast adds only to c itself: what is added has to be there first.
void bring_addend(Queue& queue, const GemmProblem& p, const GemmOperands& o) {
  if (p.beta == 0.0 || o.d == o.c) return;
  const int64_t sizes[] = {p.batch, p.m, p.n};
  elementwise(queue, elementwise_row("copy"), p.dtype, TensorView::strided(o.c, p.dtype, sizes, p.c),
              {TensorView::strided(const_cast<void*>(o.d), p.dtype, sizes, p.d)});
}

void run(Queue& queue, const GemmProblem& p, const GemmOperands& o, void*) {
  if (CommandList* list = queue.capture()) list->refuse("a product by CLBlast");
  bring_addend(queue, p, o);
  if (p.dtype == DType::float64) return run_as<double>(queue, p, o);
  run_as<float>(queue, p, o);
}

}  // namespace

const GemmAlgorithm clblast{"clblast", [](const GemmProblem& p, const PlanTarget& target) {
                              if (const char* reason = refuses(p)) return refused(reason);
                              return GemmPlan{nullptr, declines(target), 0, run};
                            }};

}  // namespace ocl::ops::gemm_detail

#endif
