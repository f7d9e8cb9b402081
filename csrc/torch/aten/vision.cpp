// torchvision's operators. The schemas are torchvision's: these kernels wait in the dispatcher until it is imported,
// and are never called without it. Derivatives are registered by torchvision, on top of the backward operators.
#include "torch/aten/common.h"
#include "ops/vision/deform_conv.h"
#include "ops/vision/nms.h"
#include "ops/vision/roi_align.h"

#include <ATen/Context.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace ocl::aten {
namespace {

using at::Tensor;

void require_floating(const char* name, const Tensor& tensor) {
  if (!tensor.is_floating_point()) not_implemented_for(name, tensor.scalar_type());
}

// Gradients that many work-items add to are summed in the type that kernels compute in.
Tensor zeros_to_sum(at::IntArrayRef sizes, const Tensor& like) {
  return at::zeros(sizes, like.options().dtype(like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

Tensor nms(const Tensor& boxes, const Tensor& scores, double threshold) {
  TORCH_CHECK(boxes.dim() == 2, "boxes should be a 2d tensor, got ", boxes.dim(), "D");
  TORCH_CHECK(boxes.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", boxes.size(1));
  TORCH_CHECK(scores.dim() == 1, "scores should be a 1d tensor, got ", scores.dim(), "D");
  TORCH_CHECK(boxes.size(0) == scores.size(0),
              "boxes and scores should have same number of elements in dimension 0, got ", boxes.size(0), " and ",
              scores.size(0));
  TORCH_CHECK(boxes.scalar_type() == scores.scalar_type(), "dets should have the same type as scores");
  at::checkAllSameGPU("nms", {at::TensorArg(boxes, "dets", 1), at::TensorArg(scores, "scores", 2)});
  require_floating("nms_kernel", boxes);
  const c10::OptionalDeviceGuard guard(at::device_of(boxes));
  const int64_t count = boxes.size(0);
  if (count == 0) return at::empty({0}, boxes.options().dtype(at::kLong));
  const Tensor order = std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true)).contiguous(),
               dense = boxes.contiguous();
  const Tensor kept = at::empty({count + 1}, order.options());  // the last element is the number of kept boxes
  ops::nms(queue_for(boxes), dtype_of(boxes.scalar_type()), count, address(kept), address(kept[count]), address(dense),
           address(order), threshold);
  return kept.narrow(0, 0, kept[count].item<int64_t>()).clone();
}

ops::RoiAlign roi_problem(const Tensor& image, const Tensor& rois, at::IntArrayRef sizes, double scale, int64_t bins_y,
                          int64_t bins_x, int64_t sampling_ratio, bool aligned) {
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, "rois must have shape as Tensor[K, 5]");
  at::checkAllSameGPU("roi_align", {at::TensorArg(image, "input", 1), at::TensorArg(rois, "rois", 2)});
  at::checkAllSameType("roi_align", {at::TensorArg(image, "input", 1), at::TensorArg(rois, "rois", 2)});
  require_floating("roi_align_forward_kernel_impl", image);
  return {.dtype = dtype_of(image.scalar_type()),
          .batch = sizes[0],
          .channels = sizes[1],
          .height = sizes[2],
          .width = sizes[3],
          .regions = rois.size(0),
          .bins_y = bins_y,
          .bins_x = bins_x,
          .scale = scale,
          .sampling_ratio = sampling_ratio,
          .aligned = aligned};
}

Tensor roi_align(const Tensor& input, const Tensor& rois, double scale, int64_t bins_y, int64_t bins_x,
                 int64_t sampling_ratio, bool aligned) {
  TORCH_CHECK(input.dim() == 4, "input must have shape as Tensor[N, C, H, W]");
  const ops::RoiAlign problem = roi_problem(input, rois, input.sizes(), scale, bins_y, bins_x, sampling_ratio, aligned);
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  const Tensor output = at::empty({rois.size(0), input.size(1), bins_y, bins_x}, input.options());
  const Tensor dense = input.contiguous(), regions = rois.contiguous();
  ops::roi_align(queue_for(input), problem, address(output), address(dense), address(regions));
  return output;
}

Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, double scale, int64_t bins_y, int64_t bins_x,
                          int64_t batch, int64_t channels, int64_t height, int64_t width, int64_t sampling_ratio,
                          bool aligned) {
  const std::array<int64_t, 4> sizes{batch, channels, height, width};
  const ops::RoiAlign problem = roi_problem(grad, rois, sizes, scale, bins_y, bins_x, sampling_ratio, aligned);
  const c10::OptionalDeviceGuard guard(at::device_of(grad));
  const Tensor sum = zeros_to_sum(sizes, grad), dense = grad.contiguous(), regions = rois.contiguous();
  ops::roi_align_backward(queue_for(grad), problem, address(sum), address(dense), address(regions),
                          at::globalContext().deterministicAlgorithms());
  return sum.to(grad.scalar_type());
}

// One call of deform_conv2d or its backward: operands checked and dense, cut into chunks of images so that the columns
// stay small.
struct DeformCall {
  Tensor image, weight, offset, mask;
  ops::DeformConv problem;
  int64_t groups, chunk;  // groups of weights; images at a time

  DeformCall(const Tensor& image_, const Tensor& weight_, const Tensor& offset_, const Tensor& mask_,
             const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h,
             int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask)
      : image(image_.contiguous()), weight(weight_.contiguous()), offset(offset_.contiguous()), groups(groups) {
    if (use_mask) mask = mask_.contiguous();
    TORCH_CHECK(image.dim() == 4 && offset.dim() == 4 && weight.dim() == 4,
                "deform_conv2d: input, offset and weight must have 4 dimensions, got ", image.dim(), ", ", offset.dim(),
                " and ", weight.dim());
    TORCH_CHECK(!use_mask || mask.dim() == 4, "deform_conv2d: mask must have 4 dimensions");
    at::checkAllSameGPU("deform_conv2d", {at::TensorArg(image, "input", 1), at::TensorArg(weight, "weight", 2),
                                          at::TensorArg(offset, "offset", 3), at::TensorArg(mask_, "mask", 4),
                                          at::TensorArg(bias, "bias", 5)});
    at::checkAllSameType("deform_conv2d", {at::TensorArg(image, "input", 1), at::TensorArg(weight, "weight", 2),
                                           at::TensorArg(offset, "offset", 3)});
    require_floating("deform_conv2d", image);
    const int64_t kernel_h = weight.size(2), kernel_w = weight.size(3);
    TORCH_CHECK(kernel_h > 0 && kernel_w > 0, "weight_h: ", kernel_h, " weight_w: ", kernel_w);
    TORCH_CHECK(stride_h > 0 && stride_w > 0, "stride_h: ", stride_h, " stride_w: ", stride_w);
    TORCH_CHECK(pad_h >= 0 && pad_w >= 0, "pad_h: ", pad_h, " pad_w: ", pad_w);
    TORCH_CHECK(dilation_h > 0 && dilation_w > 0, "dil_h: ", dilation_h, " dil_w: ", dilation_w);
    TORCH_CHECK(groups > 0 && offset_groups > 0 && weight.size(1) * groups == image.size(1),
                "deform_conv2d: input has ", image.size(1), " channels, weight expects ", weight.size(1) * groups);
    TORCH_CHECK(weight.size(0) % groups == 0, "deform_conv2d: ", weight.size(0), " output channels do not divide into ",
                groups, " groups");
    TORCH_CHECK(image.size(1) % offset_groups == 0, "deform_conv2d: ", image.size(1), " channels do not divide into ",
                offset_groups, " offset groups");
    TORCH_CHECK(offset.size(1) == offset_groups * 2 * kernel_h * kernel_w,
                "offset.shape[1] is not valid: got: ", offset.size(1),
                " expected: ", offset_groups * 2 * kernel_h * kernel_w);
    TORCH_CHECK(!use_mask || mask.size(1) == offset_groups * kernel_h * kernel_w,
                "mask.shape[1] is not valid: got: ", use_mask ? mask.size(1) : 0,
                " expected: ", offset_groups * kernel_h * kernel_w);
    TORCH_CHECK(image.size(0) == offset.size(0), "invalid batch size of offset");
    TORCH_CHECK(!use_mask || image.size(0) == mask.size(0), "invalid batch size of mask");
    const int64_t out_h = (image.size(2) + 2 * pad_h - (dilation_h * (kernel_h - 1) + 1)) / stride_h + 1;
    const int64_t out_w = (image.size(3) + 2 * pad_w - (dilation_w * (kernel_w - 1) + 1)) / stride_w + 1;
    TORCH_CHECK(offset.size(2) == out_h && offset.size(3) == out_w, "offset output dims: (", offset.size(2), ", ",
                offset.size(3), ") - computed output dims: (", out_h, ", ", out_w, ")");
    TORCH_CHECK(!use_mask || (mask.size(2) == out_h && mask.size(3) == out_w), "mask output dims: (",
                use_mask ? mask.size(2) : 0, ", ", use_mask ? mask.size(3) : 0, ") - computed output dims: (", out_h,
                ", ", out_w, ")");
    TORCH_CHECK(out_h > 0 && out_w > 0, "Calculated output size too small - out_h: ", out_h, " out_w: ", out_w);
    problem = {.dtype = dtype_of(image.scalar_type()),
               .batch = 1,
               .channels = image.size(1),
               .height = image.size(2),
               .width = image.size(3),
               .kernel_height = kernel_h,
               .kernel_width = kernel_w,
               .output_height = out_h,
               .output_width = out_w,
               .stride_y = stride_h,
               .stride_x = stride_w,
               .padding_y = pad_h,
               .padding_x = pad_w,
               .dilation_y = dilation_h,
               .dilation_x = dilation_w,
               .groups = offset_groups};
    constexpr int64_t columns_bytes = int64_t{64} << 20;
    const int64_t per_image = std::max<int64_t>(
        1, problem.channels * problem.taps() * problem.pixels() * static_cast<int64_t>(image.element_size()));
    chunk = std::clamp<int64_t>(columns_bytes / per_image, 1, std::max<int64_t>(1, image.size(0)));
  }

  int64_t images() const { return image.size(0); }
  int64_t depth() const { return problem.channels / groups * problem.taps(); }  // rows of the columns of a group
  Tensor weights() const { return weight.view({groups, weight.size(0) / groups, depth()}); }

  // Calls f(first image, count, problem of these images).
  template <class F>
  void for_chunks(F&& f) const {
    for (int64_t first = 0; first < images(); first += chunk) {
      ops::DeformConv part = problem;
      part.batch = std::min(chunk, images() - first);
      f(first, part.batch, part);
    }
  }
  // [count * groups, depth, pixels]
  Tensor columns(int64_t first, const ops::DeformConv& part) const {
    const Tensor result = at::empty({part.batch * groups, depth(), part.pixels()}, image.options());
    ops::deform_columns(queue_for(image), part, address(result), address(image.narrow(0, first, part.batch)),
                        address(offset.narrow(0, first, part.batch)), mask_of(first, part.batch));
    return result;
  }
  const void* mask_of(int64_t first, int64_t count) const {
    return mask.defined() ? address(mask.narrow(0, first, count)) : nullptr;
  }
  // The weights once for every image.
  Tensor weights_of(int64_t count) const {
    return weights().unsqueeze(0).expand({count, groups, -1, -1}).flatten(0, 1);
  }
};

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                     const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                     int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  const DeformCall call(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
                        groups, offset_groups, use_mask);
  const Tensor output = at::empty(
      {call.images(), weight.size(0), call.problem.output_height, call.problem.output_width}, input.options());
  call.for_chunks([&](int64_t first, int64_t count, const ops::DeformConv& part) {
    Tensor out = output.narrow(0, first, count).view({count * groups, weight.size(0) / groups, part.pixels()});
    at::bmm_out(out, call.weights_of(count), call.columns(first, part));
  });
  return output.add_(bias.view({1, -1, 1, 1}));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_backward(
    const Tensor& grad_, const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
    const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h,
    int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  const DeformCall call(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
                        groups, offset_groups, use_mask);
  const Tensor grad = grad_.contiguous();
  Queue& queue = queue_for(input);
  const Tensor image_sum = zeros_to_sum(input.sizes(), input),
               grad_weight = at::zeros(call.weights().sizes(), weight.options());
  const Tensor grad_offset = at::empty(call.offset.sizes(), offset.options()),
               grad_mask = use_mask ? at::empty(call.mask.sizes(), mask.options()) : at::zeros_like(mask);
  call.for_chunks([&](int64_t first, int64_t count, const ops::DeformConv& part) {
    const Tensor out = grad.narrow(0, first, count).view({count * groups, weight.size(0) / groups, part.pixels()});
    grad_weight.add_(
        at::bmm(out, call.columns(first, part).transpose(1, 2)).view({count, groups, -1, call.depth()}).sum(0));
    const Tensor columns = at::bmm(call.weights_of(count).transpose(1, 2), out);
    const void *moved = address(call.offset.narrow(0, first, count)), *scaled = call.mask_of(first, count);
    ops::deform_offset_gradient(queue, part, address(grad_offset.narrow(0, first, count)),
                                use_mask ? address(grad_mask.narrow(0, first, count)) : nullptr, address(columns),
                                address(call.image.narrow(0, first, count)), moved, scaled);
    ops::deform_image_gradient(queue, part, address(image_sum.narrow(0, first, count)), address(columns), moved, scaled,
                               at::globalContext().deterministicAlgorithms());
  });
  return {image_sum.to(input.scalar_type()), grad_weight.view(weight.sizes()), grad_offset, grad_mask,
          grad.sum(at::IntArrayRef{0, 2, 3})};
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl("nms", nms);
  m.impl("roi_align", roi_align);
  m.impl("_roi_align_backward", roi_align_backward);
  m.impl("deform_conv2d", deform_conv2d);
  m.impl("_deform_conv2d_backward", deform_conv2d_backward);
}

}  // namespace
}  // namespace ocl::aten
