#include "registry/oci/credential_store.h"

#include <chrono>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/process.h"
#include "gpux/error.h"

namespace gpux::oci {
namespace {

// A helper may ask its user for a password.
constexpr std::chrono::minutes helper_limit{2};

std::string program_of(const std::string& helper) {
  return "docker-credential-" + helper;
}

ProcessResult run_helper(const std::string& helper, const char* action, const std::string& input) {
  const std::string program = program_of(helper);
  ProcessResult result;
  try {
    result = run_process({program, action}, helper_limit, {}, input);
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}; Docker's config.json names this credential helper", error.message()));
  }
  if (result.timed_out) {
    throw Error(ErrorCode::invalid_config, fmt::format("'{} {}' did not end within 2 minutes", program, action));
  }
  return result;
}

bool is_absence(const ProcessResult& result) {
  return (result.standard_output + result.standard_error).find("credentials not found") != std::string::npos;
}

void require_success(const ProcessResult& result, const std::string& helper, const char* action) {
  if (result.exit_code == 0) return;
  const std::string said = result.standard_output.empty() ? result.standard_error : result.standard_output;
  throw Error(ErrorCode::invalid_config, fmt::format("'{} {}' failed with exit code {}: {}", program_of(helper), action,
                                                     result.exit_code, in_quotes(said)));
}

}  // namespace

CredentialStore::CredentialStore(std::filesystem::path file) : file_(std::move(file)) {}

std::optional<Credential> CredentialStore::find(const std::string& registry) const {
  const DockerConfig config = DockerConfig::read(file_);
  const std::string helper = config.helper_for(registry);
  if (helper.empty()) return config.credential_for(registry);
  const ProcessResult result = run_helper(helper, "get", credential_key(registry));
  if (result.exit_code != 0 && is_absence(result)) return config.credential_for(registry);
  require_success(result, helper, "get");
  return parse_helper_answer(result.standard_output, program_of(helper));
}

std::string CredentialStore::keep(const std::string& registry, const Credential& credential) {
  DockerConfig config = DockerConfig::read(file_);
  const std::string helper = config.helper_for(registry);
  if (helper.empty()) {
    config.set(registry, credential);
    config.write(file_);
    return file_.string();
  }
  const bool is_token = !credential.identity_token.empty();
  const nlohmann::json entry{{"ServerURL", credential_key(registry)},
                             {"Username", is_token ? "<token>" : credential.user},
                             {"Secret", is_token ? credential.identity_token : credential.password}};
  require_success(run_helper(helper, "store", entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)),
                  helper, "store");
  config.set_in_helper(registry);
  config.write(file_);
  return program_of(helper);
}

bool CredentialStore::erase(const std::string& registry) {
  DockerConfig config = DockerConfig::read(file_);
  const std::string helper = config.helper_for(registry);
  bool found = config.erase(registry);
  if (!helper.empty()) {
    const ProcessResult result = run_helper(helper, "erase", credential_key(registry));
    if (result.exit_code != 0 && !is_absence(result)) require_success(result, helper, "erase");
    found = found || result.exit_code == 0;
  }
  if (found) config.write(file_);
  return found;
}

}  // namespace gpux::oci
