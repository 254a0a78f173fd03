#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/protocols/model_choice.h"
#include "server/protocols/tei/handlers.h"
#include "server/protocols/tei/requests.h"
#include "server/protocols/tei/text_body.h"
#include "server/protocols/tei/treatment.h"
#include "tensor/json_writer.h"

namespace gpux::server::tei {
namespace {

// The longest text decides when others take their turn.
std::uint64_t cost_to_tokenize(const std::vector<std::string>& texts) {
  std::size_t longest = 0;
  std::size_t all = 0;
  for (const std::string& text : texts) {
    longest = std::max(longest, std::min(text.size(), max_text_bytes));
    all += text.size();
  }
  // Many short ones are long together.
  constexpr std::size_t short_bytes = 64 << 10;
  return std::max(longest, std::min(all, short_bytes)) * tokenizer_bytes_per_byte;
}

/// A list that is written an element at a time, and what has to be held for it.
class ListAnswer {
 public:
  explicit ListAnswer(std::shared_ptr<MemoryBudget> memory) : memory_(std::move(memory)), share_(memory_) {}

  /// Adds what `append` writes. Error as of grow_share().
  void add(const std::function<void(std::string&)>& append) {
    if (text_.size() > 1) text_ += ',';
    append(text_);
    if (text_.capacity() > share_.bytes()) {
      grow_share(share_, memory_, text_.capacity() - share_.bytes(), "the answer");
    }
  }

  /// About what is to come, before it is written.
  void expect(std::uint64_t bytes) {
    const std::uint64_t needed = text_.size() + bytes;
    if (needed > share_.bytes()) grow_share(share_, memory_, needed - share_.bytes(), "the answer");
  }

  [[nodiscard]] std::string end() { return std::move(text_ += ']'); }

 private:
  std::shared_ptr<MemoryBudget> memory_;
  MemoryShare share_;
  std::string text_ = "[";
};

}  // namespace

void tokenize(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = read_texts<Tokenize>(call.request(), call.work, read_tokenize);
  with_able(call, TextAbility::tokenize, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    const std::string prompt = asked->prompt_name.empty() ? "" : prompt_named(*model, asked->prompt_name);
    const auto answer = std::make_shared<ListAnswer>(with.work.memory);
    do_units(with, cost_to_tokenize(asked->inputs),
             [with, model, asked, answer, prompt, memory = with.work.memory, index = std::size_t{0}]() mutable {
               // Short texts are a unit together.
               constexpr std::size_t unit_bytes = 64 << 10;
               const text::Tokenizer& tokenizer = *tokenizer_of(*model);
               for (std::size_t bytes = 0; index < asked->inputs.size() && bytes < unit_bytes; ++index) {
                 const std::string whole = prompt + std::exchange(asked->inputs[index], {});
                 bytes += whole.size() + 1;
                 MemoryShare scratch(memory);
                 const std::size_t tokenized = std::min(whole.size(), max_text_bytes);
                 if (tokenized > 4096) {
                   grow_share(scratch, memory, tokenized * tokenizer_bytes_per_byte, "tokenizing the text");
                 }
                 try {
                   const text::Encoding encoding = tokenizer.encode(whole, {.special_tokens = asked->special_tokens,
                                                                            .offsets = text::Offsets::bytes,
                                                                            .max_bytes = max_text_bytes});
                   constexpr std::uint64_t bytes_per_token = 75;
                   answer->expect(whole.size() + encoding.size() * bytes_per_token);
                   answer->add([&](std::string& text) { append_tokens(text, whole, encoding, tokenizer); });
                 } catch (const Error& error) {
                   throw asked->inputs.size() == 1 ? error : error.within(fmt::format("text {}", index));
                 }
               }
               if (index < asked->inputs.size()) return true;
               with.exchange->respond(http::Response::json(200, answer->end()));
               return false;
             });
  });
}

void decode(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = std::make_shared<Decode>(read_decode(call.request().body.text(), call.work));
  with_able(call, TextAbility::tokenize, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    constexpr std::uint64_t decoding_bytes_per_token = 100;
    std::size_t all = 0;
    for (const TokenIds& ids : asked->ids) all += ids.size();
    const auto answer = std::make_shared<ListAnswer>(with.work.memory);
    do_units(with, all * decoding_bytes_per_token,
             [with, model, asked, answer, memory = with.work.memory, index = std::size_t{0}]() mutable {
               constexpr std::size_t unit_tokens = 16 << 10;
               for (std::size_t tokens = 0; index < asked->ids.size() && tokens < unit_tokens; ++index) {
                 const TokenIds ids = std::exchange(asked->ids[index], {});
                 tokens += ids.size() + 1;
                 MemoryShare scratch(memory);
                 grow_share(scratch, memory, ids.size() * decoding_bytes_per_token, "decoding the tokens");
                 answer->add([&](std::string& text) {
                   append_json_string(text, tokenizer_of(*model)->decode(ids, asked->skip_special_tokens));
                 });
               }
               if (index < asked->ids.size()) return true;
               with.exchange->respond(http::Response::json(200, answer->end()));
               return false;
             });
  });
}

}  // namespace gpux::server::tei
