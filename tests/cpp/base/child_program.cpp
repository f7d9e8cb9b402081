// What test_child_process.cpp starts: does what the first byte on the channel says.
#include "base/os.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace ocl;

int main() {
  os::ParentChannel parent;
  char wish = 0;
  if (!parent.read(&wish, 1, 60)) return 0;
  switch (wish) {
    case 'f': return 8;
    case 'a': std::abort();
    case 's': *static_cast<volatile int*>(nullptr) = 1; return 0;
    case 'l': std::this_thread::sleep_for(std::chrono::minutes(10)); return 0;
    case 'o': {  // what is printed does not go into the channel
      std::puts("printed by the child of a test");
      std::fflush(stdout);
      return parent.write("o", 1) ? 0 : 1;
    }
    default: break;
  }
  for (char each; parent.read(&each, 1, 60);)  // sends back what comes
    if (!parent.write(&each, 1)) return 1;
  return 0;
}
