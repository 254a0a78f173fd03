// What the hub answers: the description of a repository, and the results of a search. First line: which of them.
#include "fuzzer.h"
#include "registry/hub/file_choice.h"
#include "registry/hub/model_info.h"
#include "store/package_manifest.h"

namespace gpux::fuzz {

void read_hostile(std::string_view input) {
  const std::size_t end = input.find('\n');
  const std::string_view json = end == std::string_view::npos ? "" : input.substr(end + 1);
  if (input.substr(0, end) == "search") {
    for (const registry::HubModelInfo& info : registry::parse_search_results(json)) {
      require(!info.repository.empty(), "a result without a name");
    }
    return;
  }
  const registry::HubModelInfo info = registry::parse_model_info(json);
  require(info.commit.size() == 40, "a commit that is none");
  std::vector<std::string> names;
  for (const registry::HubFile& file : info.files) {
    require(is_inside_package(file.name), "a file outside the folder");
    require(file.sha256.empty() || file.sha256.size() == 64, "a digest that is none");
    names.push_back(file.name);
  }
  for (const std::string& name : registry::choose_files(names, {}, "it").files) {
    require(info.find(name) != nullptr, "a chosen file that is not there");
  }
}

}  // namespace gpux::fuzz
