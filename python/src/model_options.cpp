#include "model_options.h"

#include <gpux/error.h>

#include <map>
#include <utility>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace gpux::python {
namespace {

namespace nb = nanobind;

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::uint64_t memory_of(const std::string& text) {
  if (const auto bytes = memory_bytes_from(text)) return *bytes;
  throw Error(ErrorCode::usage,
              "memory_limit is '" + text + "', which is not a size such as 512, \"2GB\" or \"1.5 GiB\"");
}

Optimization optimization_of(const std::string& name) {
  if (const auto level = optimization_from(name)) return *level;
  throw Error(ErrorCode::usage, "optimization is '" + name + "', and not disabled, basic, extended, layout or all");
}

Isolation isolation_of(const std::string& name) {
  if (name == "thread") return Isolation::thread;
  if (name == "process") return Isolation::process;
  throw Error(ErrorCode::usage, "isolation is '" + name + "', and not thread or process");
}

Sandbox sandbox_of(const std::string& name) {
  if (name == "off") return Sandbox::off;
  if (name == "on") return Sandbox::on;
  if (name == "strict") return Sandbox::strict;
  throw Error(ErrorCode::usage, "sandbox is '" + name + "', and not on, off or strict");
}

void set(ModelOptions& options, const std::string& key, nb::handle value) {
  const auto number = [&] { return nb::cast<unsigned>(value); };
  const auto text = [&] { return nb::cast<std::string>(value); };
  if (key == "provider") {
    options.provider = text();
  } else if (key == "provider_from") {
    options.provider_from = text();
  } else if (key == "strict") {
    options.strict = text() == "nodes"      ? Strictness::nodes
                     : text() == "provider" ? Strictness::provider
                                            : Strictness::off;
  } else if (key == "config") {
    options.config = nb::cast<std::filesystem::path>(value);
  } else if (key == "device") {
    options.device = number();
  } else if (key == "memory") {
    options.memory_bytes = memory_of(text());
  } else if (key == "precision") {
    options.precision = text();
  } else if (key == "intra_threads") {
    options.intra_threads = number();
  } else if (key == "inter_threads") {
    options.inter_threads = number();
  } else if (key == "optimization") {
    options.optimization = optimization_of(text());
  } else if (key == "cache_directory") {
    options.cache_directory = nb::cast<std::filesystem::path>(value);
  } else if (key == "isolation") {
    options.isolation = isolation_of(text());
  } else if (key == "sandbox") {
    options.sandbox = sandbox_of(text());
  } else if (key == "timeout_ms") {
    options.timeout = std::chrono::milliseconds(nb::cast<std::int64_t>(value));
  } else if (key == "session") {
    options.session_config = nb::cast<Pairs>(value);
  } else if (key == "provider_libraries") {
    for (const auto& [name, path] : nb::cast<Pairs>(value)) options.provider_libraries.push_back({name, path});
  } else if (key == "provider_options") {
    for (auto& [provider, values] : nb::cast<std::vector<std::pair<std::string, Pairs>>>(value)) {
      options.provider_options.push_back({.provider = provider, .values = std::move(values), .where = "options"});
    }
  } else {
    throw Error(ErrorCode::internal, "there is no model option '" + key + "'");
  }
}

}  // namespace

ModelOptions to_model_options(nb::dict settings) {
  ModelOptions options;
  for (const auto& [key, value] : settings) set(options, nb::cast<std::string>(key), value);
  return options;
}

}  // namespace gpux::python
