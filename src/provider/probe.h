#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "gpux/provider_manager.h"
#include "ort/core_search.h"
#include "ort/plugins.h"
#include "provider/plugin_files.h"
#include "provider/request.h"
#include "provider/table.h"

namespace gpux::provider {

/// Whether the version comes before `floor`: "1.24.4" before "1.24.10". Numbers only; what is missing is 0. Pure.
bool is_older(const std::string& version, std::string_view floor);

/// What can be said before ONNX Runtime is opened: libraries present or missing, hardware present or not, and what to
/// type on that machine. One report for each id, plugins provisionally available. `ids` may hold names of `plugins`.
std::vector<ProviderReport> survey(std::span<const std::string> ids, std::span<const ort::CoreFile> cores,
                                   std::span<const PluginFile> plugins, const Machine& machine);

/// survey() of all providers that gpux knows. Opens no library: what is available by this may still fail to load.
std::vector<ProviderReport> survey_known(const Machine& machine);

/// Completes the reports with what the open core says: registers the plugins that the reports name, lists their
/// devices, checks which providers are built in. Reports bound to another core are left as they are.
void confirm(std::vector<ProviderReport>& reports, std::span<const PluginFile> plugins, const Machine& machine);

/// confirm() for a request. Where it is one for any device and a row of the table has one, plugins of no row stay
/// as they are: libraries that nobody asked for are not opened.
void confirm_for(const Request& request, System system, std::vector<ProviderReport>& reports,
                 std::span<const PluginFile> plugins, const Machine& machine);

}  // namespace gpux::provider
