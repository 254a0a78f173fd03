#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8.h"
#include "base/utf8_prefix.h"
#include "generation/token_bytes.h"
#include "server/protocols/llama_cpp/handlers.h"
#include "server/protocols/llama_cpp/requests.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/plain_text.h"
#include "server/protocols/request_json.h"
#include "server/protocols/tei/handlers.h"
#include "tensor/json_writer.h"

namespace gpux::server::llama_cpp {
namespace {

constexpr std::uint64_t decoding_bytes_per_token = 100;

// A piece that is no text, as a part of a character, is a list of its bytes.
void append_piece(std::string& out, std::string_view piece) {
  if (utf8_problem(piece).empty()) {
    append_json_string(out, piece);
    return;
  }
  out += '[';
  for (std::size_t i = 0; i < piece.size(); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ",", static_cast<unsigned char>(piece[i]));
  }
  out += ']';
}

std::string piece_of(const text::Encoding& encoding, std::size_t index, std::string_view text,
                     const text::Tokenizer& tokenizer) {
  const std::string token = tokenizer.token(encoding.ids()[index]).value_or("");
  if (encoding.special_tokens_mask()[index] != 0) return token;
  const std::span<const std::size_t> offsets = encoding.offsets();
  const auto is_same = [&](std::size_t a, std::size_t b) { return offsets[2 * a] == offsets[2 * b]; };
  // Tokens of one character have its place, each.
  if ((index > 0 && is_same(index - 1, index)) || (index + 1 < encoding.size() && is_same(index, index + 1))) {
    return generation::token_bytes(token, generation::token_spelling(tokenizer));
  }
  const std::size_t start = offsets[2 * index];
  return std::string(text.substr(start, offsets[2 * index + 1] - start));
}

std::string content_json(const TokenizeText& asked, const text::Encoding& encoding, const text::Tokenizer& tokenizer) {
  if (!asked.shows_pieces) return fmt::format(R"({{"tokens":[{}]}})", fmt::join(encoding.ids(), ","));
  std::string out = R"({"tokens":[)";
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    out += fmt::format(R"({}{{"id":{},"piece":)", i == 0 ? "" : ",", encoding.ids()[i]);
    append_piece(out, piece_of(encoding, i, asked.text, tokenizer));
    out += '}';
  }
  return out + "]}";
}

std::string counted_json(const TokenizeText& asked, const text::Encoding& encoding, const ServedModel& model) {
  const std::size_t limit = model.engine() != nullptr ? model.engine()->context_length() : 0;
  std::string out = fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":)", encoding.size(),
                                limit == 0 ? "null" : std::to_string(limit), fmt::join(encoding.ids(), ","));
  if (!asked.shows_pieces) return out + "null}";
  out += '[';
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    if (i != 0) out += ',';
    append_json_string(out, tokenizer_of(model)->token(encoding.ids()[i]).value_or(""));
  }
  return out + "]}";
}

// By the path, or by the body.
RouteCall named_by(const RouteCall& call, const std::string& model) {
  RouteCall named = call;
  if (model.empty()) return named;
  if (named.name && *named.name != model) {
    refuse_member("model", fmt::format("is '{}', and the path names '{}'", utf8_prefix(model, 80), *named.name));
  }
  named.name = model;
  return named;
}

}  // namespace

void tokenize(const RouteCall& call) {
  if (is_plain_text(call.request()) || !asks_for_ids(call.request().body.text())) {
    tei::tokenize(call);
    return;
  }
  const std::string_view body = call.request().body.text();
  const auto share = hold_for_reading(call.work, body, bytes_per_json_string);
  const auto asked = std::make_shared<const TokenizeText>(read_tokenize_text(body, call.work));
  with_able(named_by(call, asked->model), TextAbility::tokenize,
            [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
              const std::uint64_t cost = std::min(asked->text.size(), max_text_bytes) * tokenizer_bytes_per_byte;
              do_units(with, cost, [with, model, asked, cost] {
                constexpr std::size_t short_bytes = 4096;
                MemoryShare scratch(with.work.memory);
                if (asked->text.size() > short_bytes)
                  grow_share(scratch, with.work.memory, cost, "tokenizing the text");
                const text::Tokenizer& tokenizer = *tokenizer_of(*model);
                const text::Encoding encoding = tokenizer.encode(asked->text, {.special_tokens = asked->special_tokens,
                                                                               .offsets = text::Offsets::bytes,
                                                                               .max_bytes = max_text_bytes});
                with.exchange->respond(http::Response::json(200, asked->is_counted
                                                                     ? counted_json(*asked, encoding, *model)
                                                                     : content_json(*asked, encoding, tokenizer)));
                return false;
              });
            });
}

void detokenize(const RouteCall& call) {
  const std::string_view body = call.request().body.text();
  const auto share = hold_for_reading(call.work, body, bytes_per_json_string);
  const auto asked = std::make_shared<const Detokenize>(read_detokenize(body, call.work));
  with_able(
      named_by(call, asked->model), TextAbility::tokenize,
      [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
        const std::uint64_t cost = asked->ids.size() * decoding_bytes_per_token;
        do_units(with, cost, [with, model, asked, cost] {
          MemoryShare scratch(with.work.memory);
          grow_share(scratch, with.work.memory, cost, "decoding the tokens");
          std::string text;
          append_json_string(text, tokenizer_of(*model)->decode(asked->ids, false));
          // The same text by the names that the two servers give it.
          with.exchange->respond(http::Response::json(200, fmt::format(R"({{"content":{0},"prompt":{0}}})", text)));
          return false;
        });
      });
}

}  // namespace gpux::server::llama_cpp
