#include "server/protocols/console/routes.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/recent_log.h"
#include "server/protocols/call.h"
#include "server/protocols/console/operations.h"
#include "server/protocols/console/page_files.h"
#include "server/protocols/console/state.h"

namespace gpux::server::console {
namespace {

// Nothing but the page's own files and answers of this server; no markup from texts, and no other page around it.
constexpr std::string_view content_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

// Who may ask was decided before: console_refusal().
void require_console(const RouteCall& call) {
  if (call.service.options.has_console) return;
  throw Error(ErrorCode::not_found, "the server has no console; gpux serve --console gives it one");
}

void add_protection(http::Headers& headers) {
  headers.add("Content-Security-Policy", content_policy);
  headers.add("X-Content-Type-Options", "nosniff");
  headers.add("Referrer-Policy", "no-referrer");
  headers.add("Cross-Origin-Opener-Policy", "same-origin");
  headers.add("Cross-Origin-Resource-Policy", "same-origin");
}

std::string_view media_type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  return name.ends_with(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8";
}

void respond_with_file(const RouteCall& call, std::string_view name) {
  const auto files = page_texts();
  const auto file = std::ranges::find(files, name, &EmbeddedFile::name);
  if (file == files.end()) throw Error(ErrorCode::not_found, "the console has no such file");
  http::Response response;
  response.headers.add("Content-Type", media_type_of(name));
  // Another version of the program has other files.
  response.headers.add("Cache-Control", "no-cache");
  add_protection(response.headers);
  response.pieces.push_back(http::Piece::lasting(file->text));
  call.exchange->respond(std::move(response));
}

void page(const RouteCall& call) {
  require_console(call);
  if (!call.request().path.ends_with('/')) {
    respond_with_file(call, "index.html");
    return;
  }
  // Its addresses are relative to one without the slash, so that it also works below a prefix of a proxy.
  http::Response response;
  response.status = 308;
  response.headers.add("Location", "../console");
  response.headers.add("Cache-Control", "no-cache");
  call.exchange->respond(std::move(response));
}

void file(const RouteCall& call) {
  require_console(call);
  respond_with_file(call, call.id.value_or(""));
}

http::Response json_response(http::Piece text) {
  http::Response response = http::Response::json(200, {});
  response.headers.add("Cache-Control", "no-store");
  add_protection(response.headers);
  response.pieces.push_back(std::move(text));
  return response;
}

void state(const RouteCall& call) {
  require_console(call);
  call.exchange->respond(json_response(
      call.service.console_state.not_before(call.request().received, [&] { return state_json(call.service); })));
}

void records(const RouteCall& call) {
  require_console(call);
  call.exchange->respond(
      json_response(http::Piece::of(records_json(call.service.options.failures->all(), log::recent()))));
}

constexpr RouteContract page_contract{.describe = describe_page, .is_of_console = true};
constexpr RouteContract file_contract{.describe = describe_file, .is_of_console = true};
constexpr RouteContract state_contract{.describe = describe_state, .is_of_console = true};
constexpr RouteContract records_contract{.describe = describe_records, .is_of_console = true};

constexpr std::array<Route, 4> table{{
    {"GET", "/console", "The console, a page for browsers", RouteKey::none, Protocol::own, page, page_contract},
    // Before the files, as these are none.
    {"GET", "/console/state", "What the console shows of the models, with their figures", RouteKey::any, Protocol::own,
     state, state_contract},
    {"GET", "/console/records", "The requests that failed last, and the last lines of the log", RouteKey::any,
     Protocol::own, records, records_contract},
    {"GET", "/console/{id}", "A file of the console's page", RouteKey::none, Protocol::own, file, file_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::console
