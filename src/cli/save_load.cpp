#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "model/locate.h"
#include "model/open_model.h"
#include "registry/oci/archive.h"
#include "store/store.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

void print_models(const Context& context, const char* what, const std::vector<StoredModel>& models) {
  Json list = Json::array();
  for (const StoredModel& model : models) {
    if (context.wants_json()) {
      list.push_back({{what, model.reference.text()}, {"id", "sha256:" + model.digest}});
    } else {
      print_data(fmt::format("{} {} ({})", what, model.reference.text(), model.short_id()));
    }
  }
  if (context.wants_json()) print_data(list.dump());
}

void save(const std::vector<std::string>& names, const std::string& file, const Context& context) {
  const Store store = open_store();
  std::vector<StoredModel> models;
  for (const std::string& name : names) models.push_back(find_stored(parse_reference(name), store));
  oci::save_archive(store, models, file);
  print_models(context, "saved", models);
}

void load(const std::string& file, const std::vector<std::string>& tags, const Context& context) {
  std::vector<Reference> names;
  for (const std::string& tag : tags) names.push_back(parse_reference(tag));
  Store store = open_store();
  print_models(context, "loaded", oci::load_archive(store, file, names));
}

}  // namespace

void add_save(CLI::App& program, Context& context) {
  struct Flags {
    std::vector<std::string> models;
    std::string file;
  };

  auto flags = std::make_shared<Flags>();
  CLI::App* command = add_command(program, context, "save", "Write stored models into a tar archive");
  command->add_option("MODEL", flags->models, "NAME[:TAG] or ID")->required();
  command->add_option("-o,--output", flags->file, "the archive to write: an OCI image layout in a tar file")
      ->required();
  command->callback([flags, &context] { save(flags->models, flags->file, context); });
}

void add_load(CLI::App& program, Context& context) {
  struct Flags {
    std::string file;
    std::vector<std::string> tags;
  };

  auto flags = std::make_shared<Flags>();
  CLI::App* command = add_command(program, context, "load", "Store the models of a tar archive");
  command->add_option("-i,--input", flags->file, "an archive that gpux save or skopeo wrote (oci-archive)")->required();
  command
      ->add_option("-t,--tag", flags->tags,
                   "NAME[:TAG] in place of the name in the archive, which must have one model; may be repeated")
      ->allow_extra_args(false);
  command->callback([flags, &context] { load(flags->file, flags->tags, context); });
}

}  // namespace gpux::cli
