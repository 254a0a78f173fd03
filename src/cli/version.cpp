#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/home.h"
#include "cli/command.h"
#include "gpux/error.h"
#include "gpux/provider_manager.h"

namespace gpux::cli {
namespace {

void print_version(const Context& context) {
  nlohmann::ordered_json json;
  json["gpux"] = version();
  try {
    const RuntimeLibrary library = runtime_library();
    json["onnxruntime"] = {{"version", library.version},
                           {"path", library.path.string()},
                           {"origin", library.origin},
                           {"api_version", library.api_version}};
  } catch (const Error& error) {
    // The version of gpux itself is known all the same.
    json["onnxruntime"] = nullptr;
    json["onnxruntime_error"] = error.message();
  }
  if (context.wants_json()) {
    print_data(json.dump());
    return;
  }
  std::string line = fmt::format("gpux {}\n", version());
  if (json["onnxruntime"].is_null()) {
    line += fmt::format("ONNX Runtime: {}", json["onnxruntime_error"].get<std::string>());
  } else {
    const auto& library = json["onnxruntime"];
    line += fmt::format("ONNX Runtime {} (API {}), {}: {}", library["version"].get<std::string>(),
                        library["api_version"].get<unsigned>(), library["origin"].get<std::string>(),
                        library["path"].get<std::string>());
  }
  print_data(line);
}

}  // namespace

void add_version(CLI::App& program, Context& context) {
  CLI::App* command =
      add_command(program, context, "version", "Print the versions of gpux and of the ONNX Runtime in use");
  command->callback([&context] { print_version(context); });
}

}  // namespace gpux::cli
