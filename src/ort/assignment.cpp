#include "ort/assignment.h"

#include "ort/newer_api.h"
#include "ort/session.h"

namespace gpux::ort {
namespace {

#if ORT_API_VERSION >= 24
auto get_assignment() {
  return Ort::GetApi().Session_GetEpGraphAssignmentInfo;
}

auto get_provider() {
  return Ort::GetApi().EpAssignedSubgraph_GetEpName;
}

auto get_nodes() {
  return Ort::GetApi().EpAssignedSubgraph_GetNodes;
}

auto get_name() {
  return Ort::GetApi().EpAssignedNode_GetName;
}

auto get_domain() {
  return Ort::GetApi().EpAssignedNode_GetDomain;
}

auto get_operator_type() {
  return Ort::GetApi().EpAssignedNode_GetOperatorType;
}

using Subgraph = OrtEpAssignedSubgraph;
using Node = OrtEpAssignedNode;
#else
struct Subgraph;
struct Node;

auto get_assignment() {
  return newer_entry<OrtStatus*(ORT_API_CALL*)(const OrtSession*, const Subgraph* const**, std::size_t*)>(407);
}

auto get_provider() {
  return newer_entry<OrtStatus*(ORT_API_CALL*)(const Subgraph*, const char**)>(408);
}

auto get_nodes() {
  return newer_entry<OrtStatus*(ORT_API_CALL*)(const Subgraph*, const Node* const**, std::size_t*)>(409);
}

auto get_name() {
  return newer_entry<OrtStatus*(ORT_API_CALL*)(const Node*, const char**)>(410);
}

auto get_domain() {
  return newer_entry<OrtStatus*(ORT_API_CALL*)(const Node*, const char**)>(411);
}

auto get_operator_type() {
  return newer_entry<OrtStatus*(ORT_API_CALL*)(const Node*, const char**)>(412);
}
#endif

std::string text(const char* words) {
  return words == nullptr ? std::string() : std::string(words);
}

}  // namespace

std::vector<AssignedNode> read_assignment(const OrtSession* session) {
  std::vector<AssignedNode> assigned;
  const Subgraph* const* subgraphs = nullptr;
  std::size_t subgraph_count = 0;
  Ort::ThrowOnError(get_assignment()(session, &subgraphs, &subgraph_count));
  for (std::size_t i = 0; i < subgraph_count; ++i) {
    const char* provider = nullptr;
    Ort::ThrowOnError(get_provider()(subgraphs[i], &provider));
    const Node* const* nodes = nullptr;
    std::size_t node_count = 0;
    Ort::ThrowOnError(get_nodes()(subgraphs[i], &nodes, &node_count));
    for (std::size_t j = 0; j < node_count; ++j) {
      const char* name = nullptr;
      const char* domain = nullptr;
      const char* operator_type = nullptr;
      Ort::ThrowOnError(get_name()(nodes[j], &name));
      Ort::ThrowOnError(get_domain()(nodes[j], &domain));
      Ort::ThrowOnError(get_operator_type()(nodes[j], &operator_type));
      assigned.push_back({text(provider), text(name), text(domain), text(operator_type)});
    }
  }
  return assigned;
}

}  // namespace gpux::ort
