// std::condition_variable::wait(lock) got a new version of its symbol in GCC 12 (GLIBCXX_3.4.30) and does the same as
// before. With the linker's --wrap every call of it comes here, and goes on to the version that older systems have too
// (TORCH_OCL_PORTABLE).
#define WAIT "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"

extern "C" {
__asm__(".symver old_wait," WAIT "@GLIBCXX_3.4.11");
void old_wait(void* condition, void* lock);

void wrapped_wait(void* condition, void* lock) __asm__("__wrap_" WAIT);
void wrapped_wait(void* condition, void* lock) { old_wait(condition, lock); }
}
