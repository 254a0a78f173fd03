#include "base/json_problem.h"

#include <string_view>

namespace gpux {

std::string json_problem(const nlohmann::json::exception& exception) {
  // "[json.exception.parse_error.101] parse error at …"
  const std::string_view text = exception.what();
  const std::size_t end = text.find("] ");
  return std::string(text.starts_with("[json.exception.") && end != std::string_view::npos ? text.substr(end + 2)
                                                                                           : text);
}

}  // namespace gpux
