#include "cli/print_json.h"

#include "cli/command.h"

namespace gpux::cli {

void print_json(const Json& json) {
  print_data(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace gpux::cli
