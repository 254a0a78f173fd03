#include "checkpoint/module_feature.h"

namespace gpux::checkpoint {

void require_feature(const JsonSettings& module, std::string_view feature) {
  for (const char* key : {"module_input_name", "module_output_name"}) {
    const std::string name = module.text(key);
    if (!name.empty() && name != feature) module.refuse_value(key, name, feature);
  }
}

}  // namespace gpux::checkpoint
