// Precompiled for every file of the backend: what all registrations need and nothing more.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>
