#include "library/load_flags_of.h"

#include <fmt/format.h>

namespace gpux {
namespace {

std::string text_of(const std::optional<unsigned>& number) {
  return number ? std::to_string(*number) : std::string();
}

std::string text_of(const std::optional<Strictness>& strict) {
  if (!strict) return {};
  return *strict == Strictness::nodes ? "nodes" : *strict == Strictness::provider ? "true" : "false";
}

}  // namespace

LoadFlags load_flags_of(const ModelOptions& options) {
  LoadFlags flags;
  flags.provider = options.provider;
  flags.provider_from = options.provider_from;
  flags.strict = text_of(options.strict);
  flags.device = text_of(options.device);
  if (options.memory_bytes) flags.memory = std::to_string(*options.memory_bytes);
  flags.precision = options.precision;
  flags.cache_directory = options.cache_directory.string();
  flags.intra_threads = text_of(options.intra_threads);
  flags.inter_threads = text_of(options.inter_threads);
  if (options.optimization) flags.optimization = to_string(*options.optimization);
  for (const ProviderLibrary& library : options.provider_libraries) {
    flags.provider_libraries.push_back(fmt::format("{}={}", library.name, library.path.string()));
  }
  for (const ProviderOptions& provider : options.provider_options) {
    for (const auto& [name, value] : provider.values) {
      flags.provider_options.push_back(fmt::format("{}.{}={}", provider.provider, name, value));
    }
  }
  for (const std::filesystem::path& library : options.custom_operator_libraries) {
    flags.custom_operators.push_back(library.string());
  }
  for (const auto& [name, value] : options.session_config) {
    flags.session_options.push_back(fmt::format("{}={}", name, value));
  }
  return flags;
}

std::string timeout_of(const ModelOptions& options) {
  return options.timeout ? fmt::format("{}ms", options.timeout->count()) : std::string();
}

}  // namespace gpux
