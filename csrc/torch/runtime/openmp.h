#pragma once

namespace ocl::runtime {

// torch.set_num_threads() holds for kernels on CPU devices too: called before work is issued, it hands the main
// thread's number to the thread pool.
void follow_thread_limit();

}  // namespace ocl::runtime
