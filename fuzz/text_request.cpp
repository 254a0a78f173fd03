// The body of a request to a text model, read by each of the readers.
#include <functional>

#include "fuzzer.h"
#include "gpux/error.h"
#include "server/protocols/openai/embedding_requests.h"
#include "server/protocols/tei/image_labels.h"
#include "server/protocols/tei/requests.h"

namespace {

// Taken, or refused in one line: nothing else.
void read(const std::function<void()>& reader) {
  try {
    reader();
  } catch (const gpux::Error& error) {
    gpux::fuzz::require(error.code() == gpux::ErrorCode::invalid_input, "refused as something else");
  }
}

void require_texts(std::size_t count) {
  gpux::fuzz::require(count >= 1 && count <= gpux::server::max_texts, "a number of texts that is not accepted");
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  read([&] { require_texts(server::read_embed(input).inputs.size()); });
  read([&] { require_texts(server::read_openai_embeddings(input).inputs.size()); });
  read([&] { require_texts(server::read_similarity(input).sentences.size()); });
  read([&] { require_texts(server::read_tokenize(input).inputs.size()); });
  read([&] { require_texts(server::read_decode(input).ids.size()); });
  read([&] { require_texts(server::read_image_labels(input).images.size()); });
}
