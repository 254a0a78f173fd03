#include <algorithm>
#include <memory>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/home.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "cli/command.h"
#include "cli/table.h"
#include "gpux/error.h"
#include "model/locate.h"
#include "model/open_model.h"
#include "store/store.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const StoredModel& model) {
  Json json;
  json["name"] = model.reference.name;
  json["tag"] = model.reference.tag;
  json["id"] = "sha256:" + model.digest;
  json["created"] = model.created;
  if (!model.damage.empty()) {
    json["damage"] = model.damage;
    return json;
  }
  json["size_bytes"] = model.package.total_bytes();
  json["version"] = model.package.version;
  json["provider"] = model.package.provider.empty() ? "auto" : model.package.provider;
  json["description"] = model.package.description;
  if (!model.package.origin.source.empty()) {
    json["source"] = model.package.origin.source;
    json["revision"] = model.package.origin.revision;
  }
  return json;
}

// "huggingface.co/ORG/NAME@0123456789ab"
std::string origin_text(const PackageOrigin& origin) {
  constexpr std::size_t shown_digits = 12;
  constexpr std::string_view scheme = "https://";
  std::string text = origin.source.starts_with(scheme) ? origin.source.substr(scheme.size()) : origin.source;
  if (!origin.revision.empty()) text += "@" + origin.revision.substr(0, shown_digits);
  return text;
}

void list_images(const Context& context) {
  const std::vector<StoredModel> models = open_store().list();
  std::error_code error;
  if (const auto home = home_folder(); !std::filesystem::exists(home, error)) {
    say(context, fmt::format("no model is stored: the folder '{}' does not exist yet", home.string()));
  }
  if (context.wants_json()) {
    Json list = Json::array();
    for (const StoredModel& model : models) list.push_back(to_json(model));
    print_data(list.dump());
    return;
  }
  // The column is there where a model was pulled.
  const bool has_origins =
      std::ranges::any_of(models, [](const StoredModel& model) { return !model.package.origin.source.empty(); });
  Table table{{"NAME", "TAG", "ID", "CREATED", "SIZE"}, {}};
  if (has_origins) table.head.emplace_back("ORIGIN");
  for (const StoredModel& model : models) {
    table.rows.push_back(
        {model.reference.name, model.reference.tag, model.short_id(), model.created,
         model.damage.empty() ? format_bytes(model.package.total_bytes()) : "damaged: " + model.damage});
    if (has_origins) table.rows.back().push_back(origin_text(model.package.origin));
  }
  print_data(table.text());
}

// What a command did to one name.
void print_change(const Context& context, const char* what, const StoredModel& model) {
  if (context.wants_json()) {
    print_data(Json{{what, model.reference.text()}, {"id", "sha256:" + model.digest}}.dump());
  } else {
    print_data(fmt::format("{} {} ({})", what, model.reference.text(), model.short_id()));
  }
}

// Of a model with several names an id does not say which is meant.
Reference reference_to_remove(const std::string& text, const Store& store) {
  const Reference typed = parse_reference(text);
  const StoredModel model = find_stored(typed, store);
  if (model.reference == typed) return model.reference;
  std::vector<std::string> names;
  for (const StoredModel& each : store.list()) {
    if (each.digest == model.digest) names.push_back(each.reference.text());
  }
  if (names.size() == 1) return model.reference;
  throw Error(ErrorCode::usage,
              fmt::format("'{}' has {} names: give those to remove: {}", text, names.size(), join(names)));
}

void remove_images(const std::vector<std::string>& names, const Context& context) {
  Store store = open_store();
  std::vector<Reference> references;
  // All or none: a mistyped name is found before the first is taken away.
  for (const std::string& name : names) references.push_back(reference_to_remove(name, store));
  Json removed = Json::array();
  for (const Reference& reference : references) {
    const StoredModel model = store.remove(reference);
    removed.push_back({{"removed", model.reference.text()}, {"id", "sha256:" + model.digest}});
    if (!context.wants_json()) print_data(fmt::format("removed {} ({})", model.reference.text(), model.short_id()));
  }
  if (context.wants_json()) print_data(removed.dump());
}

}  // namespace

void add_images(CLI::App& program, Context& context) {
  CLI::App* command = add_command(program, context, "images", "List the stored models");
  command->alias("ls")->alias("list");
  command->callback([&context] { list_images(context); });
}

void add_tag(CLI::App& program, Context& context) {
  struct Names {
    std::string existing, added;
  };

  auto names = std::make_shared<Names>();
  CLI::App* command = add_command(program, context, "tag", "Add a name to a stored model");
  command->add_option("MODEL", names->existing, "an existing NAME[:TAG] or ID")->required();
  command->add_option("NAME", names->added, "NAME[:TAG] to add")->required();
  command->callback([names, &context] {
    Store store = open_store();
    const StoredModel existing = find_stored(parse_reference(names->existing), store);
    print_change(context, "tagged", store.tag(existing.reference, parse_reference(names->added)));
  });
}

void add_rm(CLI::App& program, Context& context) {
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      add_command(program, context, "rm", "Remove names of stored models, and models without a name left");
  command->alias("rmi");
  command->add_option("MODEL", *names, "NAME[:TAG], or an ID that images prints")->required();
  command->callback([names, &context] { remove_images(*names, context); });
}

void add_prune(CLI::App& program, Context& context) {
  CLI::App* command = add_command(program, context, "prune", "Free disk space: remove files that no stored model uses");
  command->callback([&context] {
    const PruneResult result = open_store().prune();
    if (context.wants_json()) {
      print_data(Json{{"files", result.files}, {"bytes", result.bytes}}.dump());
    } else {
      print_data(fmt::format("removed {}, {}", counted(result.files, "file"), format_bytes(result.bytes)));
    }
  });
}

}  // namespace gpux::cli
