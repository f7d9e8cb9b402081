#include "opencl/program/program.h"

#include "opencl/capabilities/bfloat16_pairs.h"
#include "opencl/capabilities/fma.h"
#include "opencl/capabilities/simulated.h"
#include "opencl/program/ahead.h"
#include "opencl/program/build_ahead.h"
#include "base/environment.h"
#include "opencl/program/entry_points.h"
#include "opencl/program/kernel_sources.h"
#include "base/os.h"
#include "opencl/program/program_build.h"
#include "opencl/program/program_cache.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <unordered_map>

namespace ocl {

Defines& Defines::add(const char* name, int64_t value) {
  char text[256];
  std::snprintf(text, sizeof text, "#define %s %" PRId64 "\n", name, value);
  text_ += text;
  return *this;
}

Defines& Defines::add(const char* name, std::string_view tokens) {
  text_.append("#define ").append(name).append(" ").append(tokens).append("\n");
  return *this;
}

Defines& Defines::text(std::string_view source) {
  text_.append(source).append("\n");
  return *this;
}

std::string kernel_source(const std::string& file) {
  if (const auto folder = environment::get("TORCH_OCL_KERNEL_DIR")) {
    if (!std::filesystem::is_directory(*folder))
      environment::reject("TORCH_OCL_KERNEL_DIR", *folder, "a folder", "the embedded kernel sources are used");
    std::ifstream stream(std::filesystem::path(*folder) / file, std::ios::binary);
    if (stream) return {std::istreambuf_iterator<char>(stream), {}};
  }
  for (const PrintedKernelFile& printed : printed_kernel_files())
    if (printed.name == file) return printed.text();
  for (const KernelFile& embedded : embedded_kernel_files())
    if (embedded.name == file) return std::string(embedded.text);
  throw InvalidArgument("there is no kernel file " + file);
}

namespace {

// Replaces `#include "x"` lines by the file, each file once.
void expand(const std::string& text, std::set<std::string>& seen, std::string& out) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("#include \"", 0) == 0) {
      const std::string file = line.substr(10, line.find('"', 10) - 10);
      if (seen.insert(file).second) expand(kernel_source(file), seen, out);
    } else {
      out += line;
      out += '\n';
    }
  }
}

std::string build_options(const Device& device, const std::string& source, bool functions) {
  // the extension's functions, and blocks, belong to a later language
  const bool extension = source.find("#define FLOAT_ATOMICS 1\n") != std::string::npos;
  const Executor* executor = device.executor();
  const bool blocks = functions && executor->driver() == HostDriver::local_thread;
  std::string options = extension || blocks ? "-cl-std=CL3.0" : "-cl-std=CL1.2";
  options += " -w";  // some drivers print the number of warnings on stderr, those of their optimizer included
  // a kernel's wish; only NVIDIA's compiler has the option
  constexpr std::string_view wish = "#define MOST_REGISTERS ";
  if (const size_t at = source.find(wish);
      at != std::string::npos && device.capabilities().has_extension("cl_nv_compiler_options"))
    options += " -cl-nv-maxrregcount=" + std::to_string(std::atoi(source.c_str() + at + wish.size()));
  if (device.capabilities().correctly_rounded_divide_sqrt) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  return options;
}

std::string preamble(const Device& device, const std::string& source, bool functions) {
  const Capabilities& c = device.capabilities();
  std::string text;
  text += simulated_source(c);
  text += "#define DEVICE_FP64 " + std::to_string(c.fp64) + "\n";
  text += "#define CPU_STYLE " + std::to_string(device.cpu_style()) + "\n";
  text += "#define NARROW_REGISTERS " + std::to_string(c.vector_floats < 16) + "\n";
  if (source.find("fma(") != source.npos && source.find("#define FMA_AS_IT_IS\n") == source.npos && !has_fma(device))
    text += "#define fma mad\n";
  if (bfloat16_pairs_emulated()) text += "#define BFLOAT16_PAIRS_EMULATED\n";
  if (c.fp64) text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  if (const Executor* executor = device.executor()) {
    text += executor->source();
    if (functions) text += executor->function_source();
  }
  return text;
}

struct Program {
  std::once_flag looked, found;  // for what was compiled ahead of time, for the driver's
  std::string ahead_name;
  cl_program handle = nullptr;  // or
  std::shared_ptr<BuildAhead> ahead;
  std::exception_ptr error;  // a BuildError of a guarded device, where callers have another way and come again
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
};

struct Programs {
  std::mutex mutex;
  std::unordered_map<std::string, Program> programs;
  std::atomic<uint64_t> built{0}, loaded{0};
};

Programs& programs() {
  static Programs* instance = new Programs;
  return *instance;
}

// What the program is, or will be.
void find_program(Program& program, ProgramRequest request, BuildTime when) {
  {
    const os::FileLock turn = program_cache::build_turn(request.key);
    program.handle = program_cache::enabled() ? load_program(request) : nullptr;
  }
  if (program.handle) {
    ++programs().loaded;
    return;
  }
  ++programs().built;
  if (when != BuildTime::at_once && BuildAhead::available(*request.device)) {
    program.ahead = BuildAhead::start(std::move(request), when == BuildTime::beside);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  program.handle = load_or_compile_program(request);
  announce_wait(*request.device, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

// The kernel, or the one of that name that another thread has made meanwhile.
Kernel& keep(Program& program, const char* file, std::unique_ptr<Kernel> kernel) {
  std::lock_guard lock(programs().mutex);
  auto& slot = program.kernels[kernel->name()];
  if (slot) return *slot;
  slot = std::move(kernel);
  if (environment::flag("TORCH_OCL_BUILD_LOG"))
    std::fprintf(stderr, "torch_ocl: kernel %s %s\n", file, slot->name().c_str());
  return *slot;
}

// Appends the program to a list (kernels_cl/ahead/programs.txt) of those to be compiled ahead of time.
void record(const std::string& list, const std::string& file, const std::string& defines) {
  if (!file.ends_with(".cl")) return;  // a text that somebody has made
  const std::string lines = "== " + file + "\n" + defines;
  const bool written = static_cast<bool>(std::ofstream(list, std::ios::app | std::ios::binary) << lines << std::flush);
  if (!written)
    environment::reject("TORCH_OCL_RECORD_PROGRAMS", list, "a file that can be written", "programs are not recorded");
}

// The driver's program, built or being built. `source`: what make_source() gave, or nothing. Errors: BuildError.
template <class MakeSource>
void find_or_build(Program& program, Device& device, const char* file, const char* name, const std::string& variant,
                   std::string source, MakeSource&& make_source, BuildTime when) {
  std::call_once(program.found, [&] {
    if (source.empty()) make_source(source);
    const EntryPoints entries =
        write_entry_points(source, device.calls_kernels() ? device.executor()->driver() : HostDriver::none);
    source = preamble(device, entries.source, entries.functions) + entries.source;
    const std::string options = build_options(device, source, entries.functions);
    const std::string key = program_cache::key(device, options, source);
    ProgramRequest request{&device, file, key, options, std::move(source), name, variant};
    if (auto folder = environment::get("TORCH_OCL_DUMP_SOURCE")) dump_source(*folder, request);
    try {
      find_program(program, std::move(request), when);
    } catch (const BuildError&) {
      if (!device.guarded()) throw;
      program.error = std::current_exception();
    }
  });
  if (program.error) std::rethrow_exception(program.error);
}

// `file` names the program; `variant` and the name determine what make_source() gives.
template <class MakeSource>
Kernel& find_kernel(Device& device, const char* file, const char* name, const std::string& variant, BuildTime when,
                    MakeSource&& make_source) {
  Programs& all = programs();
  const std::string id = std::to_string(device.index()) + "\n" + file + "\n" + variant;
  Program* program = nullptr;
  {
    std::lock_guard lock(all.mutex);
    program = &all.programs[id];
    if (const auto known = program->kernels.find(name); known != program->kernels.end()) return *known->second;
  }
  std::string source;
  std::call_once(program->looked, [&] {
    make_source(source);
    program->ahead_name = ahead::program(device, source);
    if (const auto list = environment::get("TORCH_OCL_RECORD_PROGRAMS")) record(*list, file, variant);
  });
  if (!program->ahead_name.empty()) {
    auto kernel = std::make_unique<Kernel>(device, std::shared_ptr<BuildAhead>(), name);
    if (ahead::call(*kernel, program->ahead_name)) {
      if (auto folder = environment::get("TORCH_OCL_DUMP_SOURCE")) {
        if (source.empty()) make_source(source);
        dump_source(*folder, {&device, file, program->ahead_name, {}, ahead::text(device, source), name, variant});
      }
      return keep(*program, file, std::move(kernel));
    }
  }
  find_or_build(*program, device, file, name, variant, std::move(source), make_source, when);
  return keep(*program, file,
              program->ahead ? std::make_unique<Kernel>(device, program->ahead, name)
                             : std::make_unique<Kernel>(device, program->handle, name));
}

}  // namespace

Kernel::Kernel(Device& device, cl_program program, std::string name)
    : Kernel(device, std::shared_ptr<BuildAhead>(), std::move(name)) {
  create(program);
}

Kernel::Kernel(Device& device, std::shared_ptr<BuildAhead> program, std::string name)
    : device_(device), program_(std::move(program)), name_(std::move(name)) {
  if (const Executor* executor = device.executor()) executor_state_ = executor->new_kernel_state();
}

// The driver takes what the simulated device does not have.
static void refuse_more_local_memory(const Device& device, cl_program program, const std::string& name) {
  cl_kernel kernel = clCreateKernel(program, name.c_str(), nullptr);
  if (!kernel) return;  // reported by others
  cl_ulong bytes = 0;
  clGetKernelWorkGroupInfo(kernel, device.id(), CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes, nullptr);
  clReleaseKernel(kernel);
  const uint64_t most = device.capabilities().local_memory;
  if (bytes <= most) return;
  const std::string amounts = std::to_string(bytes) + " bytes of local memory, of " + std::to_string(most);
  throw_error(CL_OUT_OF_RESOURCES, ("clCreateKernel(" + name + "): " + amounts).c_str());
}

void Kernel::create(cl_program program) {
  if (capabilities_simulated()) [[unlikely]]
    refuse_more_local_memory(device_, program, name_);
  if (device_.calls_kernels()) address_kernel_ = clCreateKernel(program, (name_ + "_address").c_str(), nullptr);
  if (address_kernel_) return;  // no driver enqueues it
  cl_int code = CL_SUCCESS;
  handle_ = clCreateKernel(program, name_.c_str(), &code);
  if (code != CL_SUCCESS) throw_error(code, ("clCreateKernel(" + name_ + ")").c_str());
}

cl_kernel Kernel::build() {
  if (program_) create(program_->get());
  program_.reset();
  return handle_;
}

bool Kernel::ready() {
  if (ready_.load(std::memory_order_relaxed)) [[likely]]
    return true;
  std::lock_guard lock(mutex_);
  const bool ready = !program_ || program_->ready();
  ready_.store(ready, std::memory_order_relaxed);
  return ready;
}

cl_kernel Kernel::address_kernel() {
  handle();
  return address_kernel_;
}

// The number of the kernel's program, of those that the file is compiled as (kernels_cl/common/programs.clh), as a
// definition; empty: there is one.
static std::string program_define(const char* file, const char* name) {
  constexpr std::string_view title = "// Programs: ";
  std::istringstream lines(kernel_source(file));
  for (std::string line; std::getline(lines, line) && line.starts_with("//");) {
    if (!line.starts_with(title)) continue;
    int number = 0;
    std::istringstream words(line.substr(title.size()));
    for (std::string word; words >> word;) {
      if (word == name) return "#define PROGRAM " + std::to_string(number) + "\n";
      number += word == "|";
    }
    throw InvalidArgument(std::string(file) + " does not say which program has " + name);
  }
  return {};
}

Kernel& get_kernel(Device& device, const char* file, const char* name, const Defines& all_defines, BuildTime when) {
  const std::string defines = program_define(file, name) + all_defines.str();
  return find_kernel(device, file, name, defines, when, [&](std::string& source) {
    source += defines;
    std::set<std::string> seen{file};
    expand(kernel_source(file), seen, source);
  });
}

Kernel& get_kernel_of_program(Device& device, const char* program, const char* name, const std::string& text,
                              BuildTime when) {
  return find_kernel(device, program, name, text, when, [&](std::string& source) {
    std::set<std::string> seen;
    expand(text, seen, source);
  });
}

Kernel& get_kernel_from_source(Device& device, const char* name, const std::string& text) {
  return get_kernel_of_program(device, name, name, text, BuildTime::at_once);
}

std::string expanded_source(const std::string& file) {
  std::string source;
  std::set<std::string> seen{file};
  expand(kernel_source(file), seen, source);
  return source;
}

BuildCounts build_counts() { return {programs().built.load(), programs().loaded.load()}; }

struct KernelSite::Table {
  std::vector<Entry> entries;  // open addressing, power-of-two size, kernel == nullptr is empty
  size_t used = 0;
  static size_t hash(int device, uint64_t variant) {
    uint64_t h = (variant + static_cast<uint64_t>(device) * 0x51ed2701) * 0x9e3779b97f4a7c15ull;
    return static_cast<size_t>(h >> 32);
  }
  void add(const Entry& entry) {
    size_t i = hash(entry.device, entry.variant) & (entries.size() - 1);
    while (entries[i].kernel) i = (i + 1) & (entries.size() - 1);
    entries[i] = entry;
    ++used;
  }
};

Kernel* KernelSite::find(int device, uint64_t variant) const {
  const Table* table = table_.load(std::memory_order_acquire);
  if (!table) return nullptr;
  const size_t mask = table->entries.size() - 1;
  for (size_t i = Table::hash(device, variant) & mask; table->entries[i].kernel; i = (i + 1) & mask)
    if (table->entries[i].device == device && table->entries[i].variant == variant) return table->entries[i].kernel;
  return nullptr;
}

Kernel& KernelSite::insert(Device& device, uint64_t variant, const Defines& defines) {
  Kernel& kernel = get_kernel(device, file_, name_, defines, when_);
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (find(device.index(), variant)) return kernel;
  const Table* old = table_.load();
  auto* table = new Table;
  table->entries.resize(
      old ? (old->used * 2 + 2 > old->entries.size() ? old->entries.size() * 2 : old->entries.size()) : 8,
      Entry{0, 0, nullptr});
  if (old)
    for (const Entry& entry : old->entries)
      if (entry.kernel) table->add(entry);
  table->add({device.index(), variant, &kernel});
  table_.store(table, std::memory_order_release);
  return kernel;
}

}  // namespace ocl
