// Autocasting: the operator lists are ATen's own, those of CUDA. Alone in its file because ATen/autocast_mode.h defines
// short global macros.
#include <ATen/autocast_mode.h>

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

using namespace at;  // the lists spell types without their namespace

static Tensor binary_cross_entropy_refused(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: the sigmoid "
              "before them may saturate in a "
              "lower precision. Use torch.nn.functional.binary_cross_entropy_with_logits or "
              "torch.nn.BCEWithLogitsLoss, which are safe.");
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
#undef LOWER_PRECISION
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(FLOAT32)
  FLOAT32(cross_entropy_loss)  // which asks log_softmax for the type of its argument: log-probabilities of 16 bits
#undef FLOAT32
#define FLOAT32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_SET_OPT_DTYPE)
#undef FLOAT32_SET_OPT_DTYPE
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(PROMOTE)
#undef PROMOTE
  m.impl("binary_cross_entropy", binary_cross_entropy_refused);
}

// torchvision computes these in float32 under autocast; it registers that for the devices it knows.
static Tensor nms_float32(const Tensor& boxes, const Tensor& scores, double threshold) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("torchvision::nms", "")
                             .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return op.call(autocast::cached_cast(kFloat, boxes, c10::DeviceType::PrivateUse1),
                 autocast::cached_cast(kFloat, scores, c10::DeviceType::PrivateUse1), threshold);
}

static Tensor roi_align_float32(const Tensor& input, const Tensor& rois, double scale, c10::SymInt height,
                                c10::SymInt width, int64_t sampling_ratio, bool aligned) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("torchvision::roi_align", "")
          .typed<Tensor(const Tensor&, const Tensor&, double, c10::SymInt, c10::SymInt, int64_t, bool)>();
  return op
      .call(autocast::cached_cast(kFloat, input, c10::DeviceType::PrivateUse1),
            autocast::cached_cast(kFloat, rois, c10::DeviceType::PrivateUse1), scale, std::move(height),
            std::move(width), sampling_ratio, aligned)
      .to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  m.impl("nms", nms_float32);
  m.impl("roi_align", roi_align_float32);
}
