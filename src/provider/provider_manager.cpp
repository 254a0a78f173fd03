#include "gpux/provider_manager.h"

#include <algorithm>

#include "gpux/error.h"
#include "ort/core.h"
#include "provider/probe.h"
#include "provider/select.h"

namespace gpux {

namespace {

// Without a request that needs another, the first core that is nobody's bridge, so that looking does not tie the
// process to a vendor's build; a bridge's core where there is no other.
std::vector<ort::CoreFile> plain_first(std::vector<ort::CoreFile> cores) {
  std::stable_partition(cores.begin(), cores.end(), [](const ort::CoreFile& core) { return core.bridges.empty(); });
  return cores;
}

std::vector<ProviderReport> report(const std::vector<std::string>& ids,
                                   const std::vector<provider::PluginFile>& plugins) {
  const Machine& machine = Machine::this_one();
  const std::vector<ort::CoreFile> cores = ort::find_cores(machine);
  std::vector<ProviderReport> reports = provider::survey(ids, cores, plugins, machine);
  ort::Core::open(plain_first(cores));
  provider::confirm(reports, plugins, machine);
  return reports;
}

}  // namespace

ProviderManager::ProviderManager(std::vector<ProviderLibrary> libraries) : libraries_(std::move(libraries)) {}

std::vector<ProviderReport> ProviderManager::providers() const {
  const std::vector<provider::PluginFile> plugins = provider::find_plugins(libraries_, Machine::this_one());
  std::vector<std::string> ids;
  for (const provider::ProviderRow& row : provider::table()) ids.emplace_back(row.id);
  for (std::string& name : provider::own_names(plugins)) ids.push_back(std::move(name));
  return report(ids, plugins);
}

std::vector<std::string> ProviderManager::select(std::string_view request_text) const {
  const std::vector<provider::PluginFile> plugins = provider::find_plugins(libraries_, Machine::this_one());
  const std::vector<std::string> own_names = provider::own_names(plugins);
  const provider::Request request = provider::parse_request(request_text, own_names);
  const provider::System system = provider::this_system();
  const Machine& machine = Machine::this_one();
  const std::vector<ort::CoreFile> cores = ort::find_cores(machine);
  std::vector<ProviderReport> reports =
      provider::survey(provider::order_of(request, system, own_names), cores, plugins, machine);
  ort::Core::open(plain_first(cores));
  provider::confirm_for(request, system, reports, plugins, machine);
  return provider::select(request, reports, system).chosen();
}

std::string ProviderManager::best_provider(std::string_view request) const {
  const std::vector<std::string> ids = select(request);
  if (ids.empty()) {
    throw Error(ErrorCode::provider_unavailable,
                "nothing of '" + std::string(request) + "' is available; 'gpux providers' says why");
  }
  return ids.front();
}

RuntimeLibrary runtime_library() {
  const ort::Core* core = ort::Core::current();
  if (core == nullptr) core = &ort::Core::open(plain_first(ort::find_cores(Machine::this_one())));
  return {core->version(), core->library(), core->origin(), core->api_version()};
}

}  // namespace gpux
