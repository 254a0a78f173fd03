#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "gpux/push.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

void print_models(const Context& context, const char* what, const std::vector<StoredPackage>& models) {
  constexpr std::size_t id_begin = 7, shown_digits = 12;
  Json list = Json::array();
  for (const StoredPackage& model : models) {
    const std::string name = model.name + ":" + model.tag;
    if (context.wants_json()) {
      list.push_back({{what, name}, {"id", model.id}});
    } else {
      print_data(fmt::format("{} {} ({})", what, name, model.id.substr(id_begin, shown_digits)));
    }
  }
  if (context.wants_json()) print_data(list.dump());
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
  command->callback([flags, &context] { print_models(context, "saved", save_packages(flags->models, flags->file)); });
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
  command->callback([flags, &context] { print_models(context, "loaded", load_packages(flags->file, flags->tags)); });
}

}  // namespace gpux::cli
