// Winograd convolutions for 2d and 3d, stride 1, one group: F(4x4,3x3), F(2x2,3x3) and F(2x2,5x5), all three passes.
// An output tile of m x m costs (m + r - 1)^2 products per channel pair instead of m^2 r^2: 4, 2.25 and 2.78 times
// fewer for F(4x4,3x3), F(2x2,3x3) and F(2x2,5x5). Errors against float64 for up to 512 channels (max over rms):
// F(2x2,3x3) 5e-6, as a direct float32 sum; the other two 3e-5. Source: A. Lavin, S. Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016; kernels in kernels_cl/conv_winograd_*.cl. CPU kernels only. Under a dilation in
// 2d the pixels that are as many rows and columns apart are images of their own, whose convolution has none. A volume
// is a row of slices, whose sums over height and width are done in this way; those over depth are direct, before the
// tiles are restored.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

enum class WinogradMode {
  automatic,  // the fastest
  precise,    // only F(2x2,3x3)
  off,
};

// Starts as `automatic`, or as `precise` with TORCH_OCL_WINOGRAD=0. Of the process; torch.backends.ocl.winograd.
WinogradMode winograd_mode();
void set_winograd_mode(WinogradMode mode);

// Every pass and variant; conv_algorithms() picks those of its pass.
std::span<const ConvAlgorithm> winograd_algorithms();

// Shape logic of one call, without a device. "Source" is the image that is transformed (x, or dy for the gradient of
// the input), "result" the one whose pixels are divided into tiles (y, or dx); for the gradient of the weights x and
// dy.
struct WinogradPlan {
  int tile = 4, taps = 3;
  bool channels_last = false;  // of source and result
  bool filters_last = false;
  int64_t batch = 0, source_channels = 0, result_channels = 0;
  int64_t source_height = 0, source_width = 0, result_height = 0, result_width = 0, pad_h = 0, pad_w = 0;
  int64_t tiles_h = 0, tiles_w = 0;  // of one image
  bool volume = false;               // an image is a slice of a sample
  int64_t dilation =
      1;  // more than 1: a sample is dilation^2 images; the padding is theirs, height and width are the sample's
  int64_t source_depth = 1, result_depth = 1, pad_d = 0, depth_taps = 1;
  int64_t images = 1;  // images of the result per part; the parts of a batch, or of a sample, run one after the other
                       // in the same workspace
  int tile_block = 0;  // tiles of a multiplication task
  int out_block = 0, in_block = 0;                         // output and input channels of a weight gradient task
  bool transform_weight = false;                           // inside the multiplication
  size_t v_bytes = 0, other_bytes = 0, partial_bytes = 0;  // V; U or D; sums of the weight gradient between parts
  size_t weight_bytes = 0;                                 // the filters of all taps in depth one after the other

  int points() const { return tile + taps - 1; }
  int64_t tiles() const { return images * tiles_h * tiles_w; }
  int64_t source_tiles() const { return (images + depth_taps - 1) * tiles_h * tiles_w; }
  int64_t source_pixels() const { return source_height * source_width; }
  int64_t result_pixels() const { return result_height * result_width; }
  int64_t parts() const {
    return images ? (volume ? batch * ceil_div(result_depth, images) : ceil_div(batch, images)) : 0;
  }
  int64_t filter_floats() const;  // of U for one tap in depth
  size_t workspace() const { return v_bytes + other_bytes + partial_bytes + weight_bytes; }
};

// A part of the work: images of the result, and what they need of the source.
struct WinogradPart {
  int64_t source_offset, result_offset;  // elements, of the sample or of the first image
  int64_t images, source_images;
  int64_t first_image, existing;  // of the source's images, from -pad_d on; those that exist are 0 .. existing - 1
  int64_t first_result;           // of the result's images, from result_offset on
};
WinogradPart winograd_part(const WinogradPlan& plan, int64_t index);

// Tiles of a multiplication task; 0: too little local memory.
int winograd_tile_block(int tile, int taps, bool transform_weight, const PlanTarget& target);
// Input channels whose filters a multiplication task transforms at once, 16 to 64.
int winograd_slab(int tile, int taps, const PlanTarget& target);
// Filters whose gradients a task can keep in local memory.
int winograd_most_filters(int tile, int taps, const PlanTarget& target);

WinogradPlan winograd_plan(ConvPass pass, const ConvProblem& problem, int tile, int taps, const PlanTarget& target);

}  // namespace ocl::ops
