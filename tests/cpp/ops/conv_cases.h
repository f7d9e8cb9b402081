// The convolutions that test_conv.cpp computes and test_plans.cpp plans.
#pragma once

#include "ops/conv/conv.h"

#include <array>
#include <ostream>

namespace ocl::testing {

using namespace ocl::ops;

struct ConvCase {
  const char* name;
  int64_t batch, groups, in, out;
  std::array<int64_t, 3> input, kernel, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
};

// Sizes are odd primes where the algorithm allows, so that tile remainders are hit; the comment says what a row is for.
inline const ConvCase conv_cases[] = {
    {"Pointwise", 3, 1, 5, 7, {1, 11, 13}, {1, 1, 1}},
    {"PointwiseManyChannels", 2, 1, 419, 37, {1, 7, 7}, {1, 1, 1}},  // several slabs of channels
    {"PointwiseStride2", 3, 1, 17, 19, {1, 13, 15}, {1, 1, 1}, {1, 2, 2}},
    {"PointwiseWide", 2, 1, 16, 24, {1, 28, 28}, {1, 1, 1}},
    {"ThreeByThree", 2, 1, 5, 11, {1, 17, 19}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ThreeByThreeChannels", 2, 1, 67, 41, {1, 14, 14}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ThreeByThreeBlocks", 2, 1, 64, 64, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ManyChannels", 3, 1, 17, 163, {1, 17, 16}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ThreeByThreeSmallPlane", 5, 1, 13, 17, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ThreeByThreeNoPadding", 1, 1, 3, 5, {1, 23, 37}, {1, 3, 3}},
    {"ThreeByThreeStride2", 2, 1, 7, 9, {1, 28, 28}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"ThreeByThreeStride2Odd", 2, 1, 7, 9, {1, 27, 25}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"ThreeByThreeStride2Channels", 3, 1, 32, 64, {1, 14, 14}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"FiveByFive", 2, 1, 6, 10, {1, 13, 17}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2}},
    {"Stem", 2, 1, 3, 16, {1, 37, 37}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}},
    {"StemStride4", 2, 1, 3, 16, {1, 63, 63}, {1, 11, 11}, {1, 4, 4}, {0, 2, 2}},
    {"Stride3", 2, 1, 4, 5, {1, 19, 20}, {1, 3, 3}, {1, 3, 3}, {0, 1, 1}},
    {"StrideAboveKernel", 2, 1, 4, 5, {1, 17, 18}, {1, 2, 2}, {1, 3, 5}},  // input pixels without output
    {"Patches", 3, 1, 3, 19, {1, 24, 32}, {1, 8, 8}, {1, 8, 8}},
    {"PatchesWithRest", 2, 1, 3, 7, {1, 23, 25}, {1, 6, 7}, {1, 6, 7}},
    {"PatchesVolume", 2, 1, 3, 5, {5, 16, 17}, {2, 8, 8}, {2, 8, 8}},
    {"Asymmetric", 2, 1, 3, 5, {1, 11, 17}, {1, 1, 7}, {1, 2, 1}, {0, 0, 3}},
    {"AsymmetricPadding", 2, 1, 3, 5, {1, 11, 9}, {1, 4, 2}, {1, 1, 2}, {0, 3, 1}},
    {"PaddingAboveKernel", 2, 1, 3, 5, {1, 7, 5}, {1, 2, 2}, {1, 1, 1}, {0, 3, 4}},
    {"Dilated", 2, 1, 5, 7, {1, 17, 19}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 2}},
    {"DilatedStride", 2, 1, 5, 7, {1, 17, 19}, {1, 3, 2}, {1, 2, 3}, {0, 2, 1}, {1, 3, 2}},
    {"KernelIsInput", 3, 1, 11, 13, {1, 6, 5}, {1, 6, 5}},
    {"Groups", 2, 3, 9, 15, {1, 11, 13}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"GroupsStride2", 2, 4, 16, 20, {1, 15, 16}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"GroupsPointwise", 2, 5, 35, 10, {1, 9, 10}, {1, 1, 1}},
    {"Depthwise", 3, 7, 7, 7, {1, 17, 19}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwiseStride2", 3, 7, 7, 7, {1, 17, 20}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"DepthwiseFive", 2, 5, 5, 5, {1, 14, 15}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2}},
    {"DepthwiseFiveStride2", 2, 5, 5, 5, {1, 15, 14}, {1, 5, 5}, {1, 2, 2}, {0, 1, 2}},
    {"DepthwiseSeven", 2, 3, 3, 3, {1, 23, 21}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    {"DepthwiseSevenStride2", 1, 3, 3, 3, {1, 19, 37}, {1, 7, 7}, {1, 2, 2}, {0, 3, 2}},
    {"DepthwiseRow", 2, 5, 5, 5, {1, 1, 90}, {1, 1, 4}, {1, 1, 1}, {0, 0, 3}},  // one dimension, even and causal
    {"DepthwiseRowOfManyTaps", 2, 5, 5, 5, {1, 3, 41}, {1, 1, 16}, {1, 1, 1}, {0, 0, 7}},
    {"DepthwiseColumn", 2, 5, 5, 5, {1, 37, 11}, {1, 11, 1}, {1, 1, 1}, {0, 5, 0}},
    {"DepthwiseOblong", 2, 5, 5, 5, {1, 19, 23}, {1, 4, 6}, {1, 1, 1}, {0, 1, 3}},
    {"DepthwiseLongRow", 1, 3, 3, 3, {1, 1, 5200}, {1, 1, 3}, {1, 1, 1}, {0, 0, 1}},
    {"DepthwiseNoPadding", 2, 3, 3, 3, {1, 9, 40}, {1, 3, 3}},
    {"DepthwiseMultiplier", 2, 3, 3, 6, {1, 9, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwiseDilated", 2, 3, 3, 3, {1, 13, 11}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 2}},
    {"DepthwiseLarge", 1, 2, 2, 2, {1, 131, 150}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},  // several bands of rows
    {"DepthwiseLargeStride2", 1, 2, 2, 2, {1, 131, 150}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"DepthwiseAsymmetricStride", 2, 3, 3, 3, {1, 13, 11}, {1, 3, 3}, {1, 2, 1}, {0, 1, 0}},
    {"DepthwiseChannels", 2, 37, 37, 37, {1, 13, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},  // blocks of 16 channels and a
                                                                                         // rest
    {"DepthwiseChannelsStride2", 2, 33, 33, 33, {1, 12, 13}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"DepthwiseChannelsFive", 2, 16, 16, 16, {1, 9, 11}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}},
    {"DepthwiseChannelsDilated", 2, 19, 19, 19, {1, 13, 11}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 2}},
    {"DepthwiseChannelsNarrow", 2, 24, 24, 24, {1, 3, 2}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    // images of few columns, 16 channels at a time
    {"DepthwisePlanes", 3, 70, 70, 70, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwisePlanesStride2", 2, 66, 66, 66, {1, 14, 13}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"DepthwisePlanesEvenStride2", 2, 64, 64, 64, {1, 8, 28}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}},
    {"DepthwisePlanesSevenStride2", 1, 65, 65, 65, {1, 9, 11}, {1, 7, 7}, {1, 2, 2}, {0, 3, 0}},
    {"DepthwisePlanesSeven", 2, 80, 80, 80, {1, 5, 6}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    {"DepthwisePlanesOblong", 2, 72, 72, 72, {1, 19, 9}, {1, 4, 6}, {1, 1, 1}, {0, 1, 3}},
    {"DepthwisePlanesNoPadding", 1, 68, 68, 68, {1, 15, 17}, {1, 3, 3}, {1, 2, 2}},
    {"DepthwisePlanesOnePixel", 5, 64, 64, 64, {1, 1, 1}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwisePlanesTall", 1, 64, 64, 64, {1, 100, 6}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwiseRowsInFours", 1, 3, 3, 3, {1, 11, 21}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    // direct: bands of rows; blocks of channels and of results, more than one image at a time; phases without taps
    {"DirectBands", 2, 2, 6, 10, {1, 67, 130}, {1, 5, 3}, {1, 1, 1}, {0, 2, 1}},
    {"DirectBlocks", 1, 1, 41, 37, {1, 9, 10}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    {"DirectImages", 5, 2, 8, 6, {1, 9, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DirectDilatedStride2", 3, 2, 6, 8, {1, 19, 22}, {1, 3, 3}, {1, 2, 2}, {0, 2, 2}, {1, 2, 2}},
    {"Line", 3, 1, 5, 7, {1, 1, 101}, {1, 1, 9}, {1, 1, 3}, {0, 0, 4}},
    {"Volume", 2, 1, 3, 5, {5, 7, 11}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},
    {"VolumeStride", 1, 2, 4, 6, {7, 9, 11}, {3, 2, 3}, {2, 1, 2}, {1, 0, 1}, {1, 2, 1}},
    {"OnePixel", 7, 1, 33, 35, {1, 1, 1}, {1, 1, 1}},
    {"OneImagePixelOut", 3, 1, 20, 33, {1, 3, 3}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
};

inline void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

inline ConvProblem problem_of(const ConvCase& c) {
  ConvProblem p;
  p.batch = c.batch, p.groups = c.groups, p.in_channels = c.in, p.out_channels = c.out;
  p.input = c.input, p.kernel = c.kernel, p.stride = c.stride, p.padding = c.padding, p.dilation = c.dilation;
  for (int d = 0; d < 3; ++d)
    p.output[d] = (p.input[d] + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1) / p.stride[d] + 1;
  return p;
}

}  // namespace ocl::testing
