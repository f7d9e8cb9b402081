#include "onnxruntime/provider.h"

#include "onnxruntime/lowering.h"
#include "onnxruntime/partition.h"
#include "onnxruntime/program.h"

#include <set>

namespace ocl::ort {

namespace {

struct Provider : OrtEp {
  Device* device = nullptr;
  const OrtLogger* logger = nullptr;
};

Provider& self(OrtEp* provider) { return *static_cast<Provider*>(provider); }

const char* ORT_API_CALL get_name(const OrtEp*) noexcept { return provider_name; }

void log(const Provider& provider, const std::string& text) {
  OrtStatus* status =
      api->Logger_LogMessage(provider.logger, ORT_LOGGING_LEVEL_VERBOSE, text.c_str(), ORT_FILE, __LINE__, "ocl");
  if (status) api->ReleaseStatus(status);
}

// Whether the device runs the node; the reason why not goes to the session's log.
bool runs(const Provider& provider, const Node& node) {
  try {
    for (const Node& part : lower(node)) make_kernel(part, *provider.device);
    return true;
  } catch (const std::exception& error) {
    log(provider, node.op + " '" + node.name + "' is left to others: " + error.what());
    return false;
  }
}

std::vector<Vertex> read_graph(const Provider& provider, const std::vector<const OrtNode*>& nodes) {
  std::vector<Vertex> graph(nodes.size());
  std::unordered_map<std::string, int> producers;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node node = read_node(nodes[i]);
    const char* taken = nullptr;
    check(api->Node_GetEpName(nodes[i], &taken));
    graph[i].runs = (!taken || !*taken) && runs(provider, node);
    for (const ValueInfo& input : node.inputs)
      if (const auto found = producers.find(input.name); found != producers.end())
        graph[i].producers.push_back(found->second);
    // What the subgraphs of a node read comes from nodes as well.
    size_t implicit = 0;
    check(api->Node_GetNumImplicitInputs(nodes[i], &implicit));
    std::vector<const OrtValueInfo*> values(implicit);
    if (implicit) check(api->Node_GetImplicitInputs(nodes[i], values.data(), implicit));
    for (const OrtValueInfo* value : values)
      if (const auto found = producers.find(read_value(value).name); found != producers.end())
        graph[i].producers.push_back(found->second);
    for (const ValueInfo& output : node.outputs)
      if (output.present()) producers.emplace(output.name, static_cast<int>(i));
  }
  return graph;
}

OrtStatus* ORT_API_CALL get_capability(OrtEp* provider, const OrtGraph* graph, OrtEpGraphSupportInfo* info) noexcept {
  return guarded([&] {
    const std::vector<const OrtNode*> nodes = nodes_of(graph);
    for (const std::vector<int>& group : partition(read_graph(self(provider), nodes))) {
      std::vector<const OrtNode*> members;
      members.reserve(group.size());
      for (const int i : group) members.push_back(nodes[static_cast<size_t>(i)]);
      OrtNodeFusionOptions options{};
      options.ort_version_supported = api_version;
      options.drop_constant_initializers = true;  // the program has a copy on the device
      check(ep_api->EpGraphSupportInfo_AddNodesToFuse(info, members.data(), members.size(), &options));
    }
  });
}

struct ComputeInfo : OrtNodeComputeInfo {
  std::unique_ptr<const Program> program;
};

OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state) noexcept {
  *state = nullptr;
  return nullptr;
}

OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* info, void*, OrtKernelContext* context) noexcept {
  return guarded([&] { static_cast<ComputeInfo*>(info)->program->compute(context); });
}

void ORT_API_CALL release_state(OrtNodeComputeInfo*, void*) noexcept {}

OrtStatus* ORT_API_CALL compile(OrtEp* provider, const OrtGraph** graphs, const OrtNode** fused, size_t count,
                                OrtNodeComputeInfo** infos, OrtNode**) noexcept {
  return guarded([&] {
    std::vector<std::unique_ptr<ComputeInfo>> made;
    for (size_t i = 0; i < count; ++i) {
      auto info = std::make_unique<ComputeInfo>();
      info->ort_version_supported = api_version;
      info->CreateState = create_state;
      info->Compute = compute;
      info->ReleaseState = release_state;
      info->program = std::make_unique<const Program>(*self(provider).device, graphs[i], fused[i]);
      made.push_back(std::move(info));
    }
    for (size_t i = 0; i < count; ++i) infos[i] = made[i].release();
  });
}

void ORT_API_CALL release_infos(OrtEp*, OrtNodeComputeInfo** infos, size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) delete static_cast<ComputeInfo*>(infos[i]);
}

}  // namespace

OrtEp* make_provider(Device& device, const OrtLogger* logger) {
  auto provider = std::make_unique<Provider>();
  provider->ort_version_supported = api_version;
  provider->GetName = get_name;
  provider->GetCapability = get_capability;
  provider->Compile = compile;
  provider->ReleaseNodeComputeInfos = release_infos;
  provider->device = &device;
  provider->logger = logger;
  return provider.release();
}

void release_provider(OrtEp* provider) noexcept { delete &self(provider); }

}  // namespace ocl::ort
