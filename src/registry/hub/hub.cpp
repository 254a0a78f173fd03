#include "registry/hub/hub.h"

#include <utility>

#include <fmt/format.h>

#include "registry/http/url.h"

namespace gpux::registry {

Hub::Hub(Client& client, HubSettings settings) : client_(client), settings_(std::move(settings)) {}

std::string Hub::authorization() const {
  return settings_.token.empty() ? std::string() : "Bearer " + settings_.token;
}

HubRequest Hub::request_for(const std::string& repository, const std::string& revision, const std::string& file) const {
  return {.repository = repository,
          .revision = revision,
          .file = file,
          .endpoint = settings_.endpoint,
          .token_source = settings_.token.empty() ? std::string() : settings_.token_source};
}

Response Hub::get(const std::string& url, const HubRequest& request) {
  // The list of the largest repositories has some 10 MB.
  constexpr std::uint64_t limit_bytes = std::uint64_t{64} << 20;
  Response response = client_.send({.url = url,
                                    .headers = {{"Accept", "application/json"}},
                                    .authorization = authorization(),
                                    .limit_body_bytes = limit_bytes});
  if (!response.is_success()) throw hub_error(response, request);
  return response;
}

HubModelInfo Hub::info(const std::string& repository, const std::string& revision) {
  std::string url = settings_.endpoint + "/api/models/" + percent_encoded(repository, true);
  // One part: a branch may have slashes in its name.
  if (!revision.empty()) url += "/revision/" + percent_encoded(revision);
  return parse_model_info(get(url + "?blobs=true", request_for(repository, revision, "")).body);
}

std::vector<HubModelInfo> Hub::search(const std::string& words, unsigned limit) {
  const std::string url = fmt::format("{}/api/models?search={}&sort=downloads&direction=-1&limit={}&full=true",
                                      settings_.endpoint, percent_encoded(words), limit);
  return parse_search_results(get(url, request_for(words, "", "")).body);
}

std::string Hub::read(const HubModelInfo& info, const std::string& file) {
  return get(file_url(info, file), request_for(info.repository, info.commit, file)).body;
}

std::string Hub::file_url(const HubModelInfo& info, const std::string& file) const {
  return fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, percent_encoded(info.repository, true), info.commit,
                     percent_encoded(file, true));
}

}  // namespace gpux::registry
