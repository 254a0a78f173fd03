#include "gpux/push.h"

#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/in_quotes.h"
#include "base/memory_size.h"
#include "cli/command.h"
#include "cli/pull_flag.h"
#include "cli/registry_flags.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PushFlags {
  std::string name, key, chunk_size;
  RegistryFlags access;
};

std::uint64_t chunk_bytes_of(const std::string& text) {
  constexpr std::uint64_t least = 65536;
  const std::optional<std::uint64_t> bytes = parse_memory_size(text);
  if (bytes && *bytes >= least) return *bytes;
  throw Error(ErrorCode::usage,
              fmt::format("--chunk-size {} is no size of at least 64 KiB, as 32MiB is", in_quotes(text)));
}

void push_model(const PushFlags& flags, const Context& context) {
  PushOptions options;
  options.sign_key = flags.key;
  if (!flags.chunk_size.empty()) options.chunk_bytes = chunk_bytes_of(flags.chunk_size);
  const oci::Access access = flags.access.access();
  options.ca_file = access.ca_file;
  options.insecure.assign(access.insecure_hosts.begin(), access.insecure_hosts.end());
  PullDisplay display(context);
  const PushedModel pushed = push(flags.name, options, display.listener());
  if (context.wants_json()) {
    Json said{{"pushed", pushed.name},     {"digest", pushed.digest}, {"existed", pushed.existed},
              {"mounted", pushed.mounted}, {"sent", pushed.sent},     {"sent_bytes", pushed.sent_bytes}};
    if (!pushed.signature_tag.empty()) said["signature_tag"] = pushed.signature_tag;
    print_data(said.dump());
    return;
  }
  print_data(fmt::format("pushed {} ({}): {} sent, {}; {} were there, {} mounted", pushed.name, pushed.digest,
                         pushed.sent, format_bytes(pushed.sent_bytes), pushed.existed, pushed.mounted));
  if (!pushed.signature_tag.empty()) print_data(fmt::format("signed: {}", pushed.signature_tag));
}

}  // namespace

void add_push(CLI::App& program, Context& context) {
  auto flags = std::make_shared<PushFlags>();
  CLI::App* command = add_command(program, context, "push", "Upload a stored model to a registry");
  command
      ->add_option("NAME", flags->name,
                   "REGISTRY/REPOSITORY[:TAG], a name of a stored model: 'gpux tag MODEL NAME' gives it")
      ->required();
  command->add_option("--sign", flags->key,
                      "also sign it with this key, as cosign does: a private key in PEM on the curve P-256");
  command->add_option("--chunk-size", flags->chunk_size,
                      "upload larger files in chunks of this size (default: 32MiB), for proxies with a limit");
  add_registry_flags(*command, flags->access);
  command->callback([flags, &context] { push_model(*flags, context); });
}

}  // namespace gpux::cli
