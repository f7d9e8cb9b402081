// What torch_ocl._distributed calls. A file of its own: PyTorch may have been built without torch.distributed.
#include "torch/distributed/process_group.h"

#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

void define_distributed(py::module& m) {
  using release = py::call_guard<py::gil_scoped_release>;
  m.def("make_process_group", ocl::distributed::make_process_group, release());
  m.def("close_process_groups", ocl::distributed::close_process_groups, release());
}
