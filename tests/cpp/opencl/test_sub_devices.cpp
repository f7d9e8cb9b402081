// CPU devices that their driver cuts into sub-devices.
#include "opencl/sub_devices.h"
#include "support.h"

#include <numeric>

namespace ocl::testing {
namespace {

using cpu_parts::Part;
using Sizes = std::vector<cl_device_partition_property>;

std::vector<Part> parts_of(const std::vector<size_t>& processors) {
  std::vector<Part> parts(processors.size());
  for (size_t i = 0; i < parts.size(); ++i) parts[i].processors.resize(processors[i]);
  return parts;
}

TEST(SubDevices, Sizes) {
  EXPECT_EQ(sub_device_sizes(8, parts_of({4, 4})), (Sizes{4, 4}));
  EXPECT_EQ(sub_device_sizes(7, parts_of({3, 4})), (Sizes{3, 4}));
  EXPECT_EQ(sub_device_sizes(4, parts_of({4, 12})), (Sizes{1, 3}));         // the driver has fewer threads
  EXPECT_EQ(sub_device_sizes(3, parts_of({1, 100, 1})), (Sizes{1, 1, 1}));  // at least one each
  EXPECT_EQ(sub_device_sizes(5, parts_of({0, 0})), (Sizes{2, 3}));          // processors without numbers
  EXPECT_TRUE(sub_device_sizes(2, parts_of({1, 1, 1})).empty());
  for (unsigned units = 3; units < 40; ++units) {
    const Sizes sizes = sub_device_sizes(units, parts_of({7, 1, 30}));
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), intptr_t{0}), static_cast<intptr_t>(units));
    EXPECT_GE(*std::min_element(sizes.begin(), sizes.end()), 1);
  }
}

// By a driver: every CPU of this machine that has compute units enough.
TEST(SubDevices, OfTheDriver) {
  cl_uint count = 0;
  clGetPlatformIDs(0, nullptr, &count);
  std::vector<cl_platform_id> platforms(count);
  clGetPlatformIDs(count, platforms.data(), nullptr);
  int cut = 0;
  for (cl_platform_id platform : platforms) {
    cl_device_id device = nullptr;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, nullptr) != CL_SUCCESS) continue;
    cl_uint units = 0, most = 0;
    clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, nullptr);
    clGetDeviceInfo(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof most, &most, nullptr);
    std::string why;
    if (units < 2 || most < 2) {
      EXPECT_TRUE(sub_devices(device, cpu_parts::equally({}, 2), why).empty());
      EXPECT_FALSE(why.empty());
      continue;
    }
    for (const int node : {-1, 0}) {  // a driver that does not know the nodes cuts by counts
      auto parts = cpu_parts::equally({}, 2);
      for (Part& part : parts) part.node = node < 0 ? -1 : static_cast<int>(part.index);
      const auto found = sub_devices(device, parts, why);
      ASSERT_EQ(found.size(), 2u) << why;
      cl_uint sum = 0;
      for (cl_device_id each : found) {
        cl_uint own = 0;
        cl_device_id parent = nullptr;
        clGetDeviceInfo(each, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof own, &own, nullptr);
        clGetDeviceInfo(each, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, nullptr);
        EXPECT_EQ(parent, device);
        sum += own;
      }
      EXPECT_EQ(sum, units);
      ++cut;
    }
  }
  if (cut == 0) GTEST_SKIP() << "no driver here cuts its devices";
}

}  // namespace
}  // namespace ocl::testing
