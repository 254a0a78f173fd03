#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/in_quotes.h"
#include "base/memory_size.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/registry_flags.h"
#include "gpux/error.h"
#include "model/open_model.h"
#include "registry/oci/access.h"
#include "registry/oci/push_package.h"
#include "store/store.h"

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

StoredModel model_to_push(const Reference& name, const Store& store) {
  if (std::optional<StoredModel> model = store.find(name)) return *std::move(model);
  throw Error(ErrorCode::not_found, fmt::format("no model '{}' is stored here; 'gpux tag MODEL {}' gives one this name",
                                                name.text(), name.text()));
}

void push(const PushFlags& flags, const Context& context) {
  const oci::RemoteReference target = oci::parse_remote_reference(flags.name);
  const Store store = open_store();
  const StoredModel model = model_to_push(target.stored_name(), store);
  oci::PushOptions options;
  if (!flags.chunk_size.empty()) options.repository.chunk_bytes = chunk_bytes_of(flags.chunk_size);
  std::optional<oci::SigningKey> key;
  if (!flags.key.empty()) {
    key = oci::SigningKey::read(flags.key);
    options.signing_key = &*key;
  }
  const oci::Access access = flags.access.access();
  registry::Client client(oci::client_options(access, [&](const std::string& note) { say(context, note); }));
  oci::Session session(client, target.registry, oci::CredentialStore(), {access.insecure_hosts, {}});

  constexpr std::uint64_t megabyte = 1'000'000;
  double share = 0;
  Progress progress(context, "MB", [&share]() -> std::optional<double> { return share; });
  oci::TransferListener listener;
  listener.on_progress = [&](std::uint64_t done, std::uint64_t total) {
    share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
    progress.show(done / megabyte);
  };
  const oci::PushedPackage pushed = oci::push_package(session, model, target, store, options, listener);
  if (context.wants_json()) {
    Json said{{"pushed", target.text()},   {"digest", "sha256:" + pushed.digest},
              {"existed", pushed.existed}, {"mounted", pushed.mounted},
              {"sent", pushed.sent},       {"sent_bytes", pushed.sent_bytes}};
    if (!pushed.signature_tag.empty()) said["signature_tag"] = pushed.signature_tag;
    print_data(said.dump());
    return;
  }
  print_data(fmt::format("pushed {} (sha256:{}): {} sent, {}; {} were there, {} mounted", target.text(), pushed.digest,
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
  command->callback([flags, &context] { push(*flags, context); });
}

}  // namespace gpux::cli
