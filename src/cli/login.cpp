#include <iostream>
#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/in_quotes.h"
#include "base/standard_input.h"
#include "base/standard_streams.h"
#include "cli/command.h"
#include "cli/hidden_typing.h"
#include "cli/registry_flags.h"
#include "gpux/error.h"
#include "registry/oci/access.h"
#include "registry/oci/credential_store.h"
#include "registry/oci/remote_reference.h"
#include "registry/oci/session.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

struct LoginFlags {
  std::string registry, user;
  bool password_from_input = false;
  RegistryFlags access;
};

std::string ask(const std::string& question) {
  write_to_standard_error(question);
  std::string line;
  std::getline(std::cin, line);
  return line;
}

std::string without_line_end(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

oci::Credential read_credential(const LoginFlags& flags) {
  oci::Credential credential{flags.user, {}, {}, {}};
  if (flags.password_from_input) {
    if (flags.user.empty()) throw Error(ErrorCode::usage, "--password-stdin needs the user name: -u NAME");
    credential.password = without_line_end(read_standard_input());
  } else {
    if (::isatty(STDIN_FILENO) == 0) {
      throw Error(ErrorCode::usage,
                  "login: standard input is no terminal to ask for the password; --password-stdin reads it from there");
    }
    if (credential.user.empty()) credential.user = ask("User name: ");
    const HiddenTyping hidden;
    credential.password = ask("Password: ");
    write_to_standard_error("\n");
  }
  if (credential.user.empty() || credential.password.empty()) {
    throw Error(ErrorCode::usage, "login: the user name or the password is empty");
  }
  if (credential.user.find(':') != std::string::npos) {
    throw Error(ErrorCode::usage, fmt::format("login: the user name {} has a ':', which HTTP does not allow",
                                              in_quotes(credential.user)));
  }
  return credential;
}

// As a user has it from a reference or a browser.
std::string registry_of(std::string text) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (text.starts_with(scheme)) text.erase(0, scheme.size());
  }
  while (text.ends_with('/')) text.pop_back();
  // Its rules are those of the first part of a reference.
  const std::string registry = oci::parse_remote_reference(text + "/model").registry;
  if (registry != text) {
    throw Error(ErrorCode::usage, fmt::format("{} is no registry; HOST or HOST:PORT is accepted", in_quotes(text)));
  }
  return registry;
}

void login(const LoginFlags& flags, const Context& context) {
  const std::string registry = registry_of(flags.registry);
  const oci::Access access = flags.access.access();
  registry::Client client(oci::client_options(access, [&](const std::string& note) { say(context, note); }));
  oci::Credential credential = read_credential(flags);
  oci::CredentialStore store;
  oci::Session session(client, registry, store, {access.insecure_hosts, credential});
  session.check_access();
  credential.identity_token = session.identity_token();
  const std::string place = store.keep(registry, credential);
  if (context.wants_json()) {
    print_data(Json{{"registry", registry}, {"user", credential.user}, {"stored_in", place}}.dump());
    return;
  }
  print_data(fmt::format("logged in to {} as {}; the credentials are in {}", registry, credential.user, place));
}

void logout(const std::string& text, const Context& context) {
  const std::string registry = registry_of(text);
  if (!oci::CredentialStore().erase(registry)) {
    throw Error(ErrorCode::not_found, fmt::format("no credentials for {} are stored", registry));
  }
  if (context.wants_json()) {
    print_data(Json{{"registry", registry}, {"logged_out", true}}.dump());
  } else {
    print_data(fmt::format("logged out of {}", registry));
  }
}

}  // namespace

void add_login(CLI::App& program, Context& context) {
  auto flags = std::make_shared<LoginFlags>();
  CLI::App* command = add_command(program, context, "login", "Log in to a registry");
  command->add_option("REGISTRY", flags->registry, "HOST or HOST:PORT, as in the names of its models")->required();
  command->add_option("-u,--username", flags->user, "user name (default: gpux asks for it)");
  command->add_flag("--password-stdin", flags->password_from_input,
                    "read the password or token from standard input (default: gpux asks for it)");
  add_registry_flags(*command, flags->access);
  command->callback([flags, &context] { login(*flags, context); });
}

void add_logout(CLI::App& program, Context& context) {
  auto registry = std::make_shared<std::string>();
  CLI::App* command = add_command(program, context, "logout", "Remove the credentials for a registry");
  command->add_option("REGISTRY", *registry, "HOST or HOST:PORT")->required();
  command->callback([registry, &context] { logout(*registry, context); });
}

}  // namespace gpux::cli
