#include "server/routes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "server/protocols/anthropic/routes.h"
#include "server/protocols/cohere/routes.h"
#include "server/protocols/console/routes.h"
#include "server/protocols/kserve/routes.h"
#include "server/protocols/llama_cpp/routes.h"
#include "server/protocols/ollama/routes.h"
#include "server/protocols/open_inference/routes.h"
#include "server/protocols/openai/routes.h"
#include "server/protocols/own/routes.h"
#include "server/protocols/responses/routes.h"
#include "server/protocols/tei/routes.h"

namespace gpux::server {
namespace {

constexpr std::size_t max_segments = 8;

// The path cut at its slashes. Decoded only where there is something to decode: most paths are plain.
class Segments {
 public:
  explicit Segments(const http::Request& request) {
    std::string_view path = request.target;
    path = path.substr(0, path.find('?'));
    if (path.find('%') != std::string_view::npos) {
      decoded_ = request.segments();
      for (const std::string& segment : decoded_) add(segment);
    } else {
      while (!path.empty()) {
        if (path.front() == '/') path.remove_prefix(1);
        const std::size_t end = std::min(path.find('/'), path.size());
        add(path.substr(0, end));
        path.remove_prefix(end);
      }
    }
    if (count_ != 0 && parts_[count_ - 1].empty()) --count_;
  }

  [[nodiscard]] bool too_many() const noexcept { return too_many_; }

  [[nodiscard]] std::span<const std::string_view> parts() const noexcept { return {parts_.data(), count_}; }

 private:
  void add(std::string_view part) {
    if (count_ == max_segments) {
      too_many_ = true;
    } else {
      parts_[count_++] = part;
    }
  }

  std::vector<std::string> decoded_;
  std::array<std::string_view, max_segments> parts_{};
  std::size_t count_ = 0;
  bool too_many_ = false;
};

struct Captures {
  std::optional<std::string_view> name, version, id;
};

// Fills the captures where the pattern fits. A name may have a verb behind it: "{name}:predict".
bool fits(std::string_view pattern, std::span<const std::string_view> segments, Captures& captures) {
  captures = {};
  if (segments.empty()) return pattern == "/";
  for (const std::string_view segment : segments) {
    if (pattern.empty()) return false;
    pattern.remove_prefix(1);
    const std::size_t end = std::min(pattern.find('/'), pattern.size());
    const std::string_view part = pattern.substr(0, end);
    pattern.remove_prefix(end);
    constexpr std::string_view name = "{name}";
    if (part.starts_with(name)) {
      const std::string_view verb = part.substr(name.size());
      if (!segment.ends_with(verb) || (!verb.empty() && segment.size() == verb.size())) return false;
      captures.name = segment.substr(0, segment.size() - verb.size());
    } else if (part == "{version}") {
      captures.version = segment;
    } else if (part == "{id}") {
      captures.id = segment;
    } else if (part != segment) {
      return false;
    }
  }
  return pattern.empty();
}

// How errors are written where no route fits.
Protocol protocol_of(std::span<const std::string_view> segments) {
  const std::string_view first_segment = segments.front();
  if (first_segment == "v1") {
    return segments.size() > 1 && segments[1] == "messages" ? Protocol::anthropic : Protocol::openai;
  }
  if (first_segment == "v2") return Protocol::open_inference;
  return first_segment == "api" ? Protocol::ollama : Protocol::own;
}

// "{name}:predict"
bool has_verb_of_its_own(const Route& route) {
  return route.path.find("}:") != std::string_view::npos;
}

// Of the routes that fit; of those without captures, or with a verb behind them, where there are any: they are there
// for this path alone.
std::vector<std::string> allowed_methods(std::span<const std::string_view> parts) {
  std::vector<std::string> allowed;
  bool is_exact = false;
  Captures captures;
  for (const Route& route : all_routes()) {
    if (!fits(route.path, parts, captures)) continue;
    const bool is_own = route.path.find('{') == std::string_view::npos || has_verb_of_its_own(route);
    if (is_exact && !is_own) continue;
    if (is_own && !std::exchange(is_exact, true)) allowed.clear();
    if (std::ranges::find(allowed, route.method) == allowed.end()) allowed.emplace_back(route.method);
  }
  return allowed;
}

}  // namespace

std::span<const Route> all_routes() {
  static const std::vector<Route> all = [] {
    std::vector<Route> joined;
    for (const std::span<const Route> some :
         {own::routes(), open_inference_v2::routes(), kserve::routes(), openai::routes(), responses::routes(),
          anthropic::routes(), ollama::routes(), tei::routes(), llama_cpp::routes(), cohere::routes(),
          own::document_routes(), console::routes(), open_inference_v2::region_routes(),
          open_inference_v2::repository_routes()}) {
      joined.insert(joined.end(), some.begin(), some.end());
    }
    return joined;
  }();
  return all;
}

RouteMatch match_route(const http::Request& request) {
  RouteMatch match;
  const Segments segments(request);
  const auto parts = segments.parts();
  if (!parts.empty()) match.protocol = protocol_of(parts);
  if (segments.too_many()) return match;
  Captures captures;
  // Few names have a colon: the others are not asked for verbs.
  const bool may_have_verb = !parts.empty() && parts.back().find(':') != std::string_view::npos;
  const bool has_verb = may_have_verb && std::ranges::any_of(all_routes(), [&](const Route& route) {
                          return has_verb_of_its_own(route) && fits(route.path, parts, captures);
                        });
  for (const Route& route : all_routes()) {
    if (route.method != request.method || (has_verb && !has_verb_of_its_own(route))) continue;
    if (!fits(route.path, parts, captures)) continue;
    match.route = &route;
    match.protocol = route.protocol;
    match.name = captures.name;
    match.version = captures.version;
    match.id = captures.id;
    return match;
  }
  match.allowed = allowed_methods(parts);
  return match;
}

}  // namespace gpux::server
