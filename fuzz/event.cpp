// An event of the daemon. Its text and hash are the same each time, and what is written of it is JSON.
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "daemon/event_text.h"
#include "daemon/vector_folder.h"
#include "fuzzer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  daemon::RefusedEvent refused;
  refused.reason = refused.position = refused.content = input;
  require(nlohmann::json::accept(daemon::refusal_document(refused)), "what is set aside is not JSON");

  daemon::EmbeddedEvent event;
  event.event = daemon::read_event(input, {});
  event.hash = daemon::event_hash("source", "1:0", event.event);
  event.position = input;
  require(is_utf8(event.event.text), "the text is not UTF-8");
  const daemon::Event again = must_succeed("reading it again", [&] { return daemon::read_event(input, {}); });
  require(again.text == event.event.text && again.data_hash == event.event.data_hash &&
              daemon::event_hash("source", "1:0", again) == event.hash,
          "the same event was read as another");
  require(nlohmann::json::accept(daemon::vec_document(event)), "the vector's document is not JSON");
  require(nlohmann::json::accept(daemon::timing_document(event)), "the timing document is not JSON");
}
