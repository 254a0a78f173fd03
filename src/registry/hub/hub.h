#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/http/client.h"
#include "registry/hub/hub_error.h"
#include "registry/hub/hub_settings.h"
#include "registry/hub/model_info.h"

namespace gpux::registry {

/// The Hugging Face hub, or a server that answers as it does.
class Hub {
 public:
  /// `client` must outlive it.
  Hub(Client& client, HubSettings settings);

  /// The repository at a revision; empty: its default branch. Renamed repositories are found under their new name.
  /// Errors as hub_error(), parse_model_info() and Client::send().
  [[nodiscard]] HubModelInfo info(const std::string& repository, const std::string& revision);

  /// Models that match the words, the most downloaded first. Errors as info().
  [[nodiscard]] std::vector<HubModelInfo> search(const std::string& words, unsigned limit);

  /// The text of a small file of the repository. Errors as info(), and network above 64 MiB.
  [[nodiscard]] std::string read(const HubModelInfo& info, const std::string& file);

  /// URL of the file at the commit of the info.
  [[nodiscard]] std::string file_url(const HubModelInfo& info, const std::string& file) const;
  [[nodiscard]] std::string authorization() const;

  [[nodiscard]] const HubSettings& settings() const noexcept { return settings_; }

  /// For the messages of hub_error().
  [[nodiscard]] HubRequest request_for(const std::string& repository, const std::string& revision,
                                       const std::string& file) const;

 private:
  [[nodiscard]] Response get(const std::string& url, const HubRequest& request);

  Client& client_;
  HubSettings settings_;
};

}  // namespace gpux::registry
