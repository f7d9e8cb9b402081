#include "base/warning.h"

#include <atomic>
#include <cstdio>

namespace ocl {

static std::atomic<WarningHandler> current_handler{nullptr};

void warn(const std::string& text) {
  if (const WarningHandler handler = current_handler.load())
    handler(text);
  else
    std::fprintf(stderr, "torch_ocl: warning: %s\n", text.c_str());
}

void set_warning_handler(WarningHandler handler) { current_handler.store(handler); }

}  // namespace ocl
