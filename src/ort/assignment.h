#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpux::ort {

/// One node (or, where the provider groups them, one node of a group) and who runs it.
struct AssignedNode {
  std::string provider;  ///< ONNX Runtime's name
  std::string name;      ///< may be empty
  std::string domain;
  std::string operator_type;
};

}  // namespace gpux::ort
