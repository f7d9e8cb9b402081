// Depthwise separable convolutions in one launch (csrc/ops/conv/separable.h).
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum {
  separable_lanes = 32,   // channels that are expanded and filtered at once, and results of a panel of weights
  separable_slack = 16,   // pixels behind the local image
  activation_limits = 0,  // kinds of activations: cuts off, and
  activation_hardswish = 1,
  activation_silu = 2,
  activation_hardsigmoid = 3,
  activation_sigmoid = 4
};

typedef struct {
  float low, high;  // of activation_limits
  int32_t kind;
} Activation;
PARAMS_LAYOUT(Activation, 12);

// Channels: `sources` of x, `width` between the two 1x1 convolutions, `results` of y.
typedef struct {
  int32_t batch, sources, width, results;
  int32_t in_h, in_w, out_h, out_w, pad_h, pad_w;
  int32_t band, bands;  // rows of the result in a task, tasks of an image
  int32_t chunks;       // of separable_lanes channels in a task
  int32_t rows, pitch;  // of the image of a chunk with its border, pixels
  int32_t places;       // pixels of x that a task reads, at most
  Activation expanded, filtered, projected;
} Separable;
PARAMS_LAYOUT(Separable, 100);

// y[pixel, result] = activation(bias + sum over sources of x[pixel, source] scale[image, source] w) + residual
typedef struct {
  int32_t images, pixels, sources, results;
  int32_t range, ranges;  // pixels of a task, tasks of an image
  int32_t panels;         // of weights in a task
  Activation activation;
} ScaledPointwise;
PARAMS_LAYOUT(ScaledPointwise, 40);

// scale = gate(excite act(squeeze mean))
typedef struct {
  int32_t channels, hidden;
  int32_t bands;  // rows of sums of an image
  float factor;   // sums to means
  Activation activation, gate;
} SqueezeExcite;
PARAMS_LAYOUT(SqueezeExcite, 40);

PARAMS_END
