// The operator library in one header: devices and queues, memory, and every operator (namespace ocl::ops). Link
// ocl::ops. docs/use/cpp.md begins with an example.
//
// All operators take a Queue, on which they are enqueued in order, and TensorViews: an address in device memory, an
// element type, sizes and strides. They return before the work has ended. Errors are of the family ocl::Error
// (base/error.h): shapes and types that do not fit throw at once, what a kernel finds in its data when the queue is
// waited for.
#pragma once

#include "ocl/buffer.h"
#include "ocl/convolution.h"
#include "opencl/device.h"
#include "opencl/launch.h"
#include "opencl/program/program.h"
#include "opencl/queue.h"
#include "ops/attention/attention.h"
#include "ops/conv/bias.h"
#include "ops/core/device_errors.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/fft/fft.h"
#include "ops/grid_sample/grid_sample.h"
#include "ops/histogram/histogram.h"
#include "ops/index/index.h"
#include "ops/linalg/linalg.h"
#include "ops/loss/ctc.h"
#include "ops/loss/nll.h"
#include "ops/norm/batch_norm.h"
#include "ops/norm/layer_norm.h"
#include "ops/optimizer/optimizer.h"
#include "ops/pad/pad.h"
#include "ops/pool/pool.h"
#include "ops/random/random.h"
#include "ops/reduce/reduce.h"
#include "ops/rnn/rnn.h"
#include "ops/scan/scan.h"
#include "ops/scatter/scatter.h"
#include "ops/search/search.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"
#include "ops/upsample/upsample.h"
#include "ops/vision/deform_conv.h"
#include "ops/vision/nms.h"
#include "ops/vision/roi_align.h"
