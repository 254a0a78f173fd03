#include "server/protocols/token_scores.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

void append_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i != 0) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

// Members of an entry without its bracket at the end.
void append_token(std::string& out, const TokenLogProbability& token) {
  out += R"({"token":)";
  append_json_string(out, token.bytes);
  fmt::format_to(std::back_inserter(out), R"(,"logprob":{},"bytes":)", finite_logarithm(token.log_probability));
  append_bytes(out, token.bytes);
}

}  // namespace

float finite_logarithm(float value) {
  constexpr float lowest = -9999;
  return std::isfinite(value) ? std::max(value, lowest) : lowest;
}

void append_token_scores(std::string& out, const std::vector<TokenScore>& scores) {
  for (const TokenScore& score : scores) {
    if (&score != &scores.front()) out += ',';
    append_token(out, score.chosen);
    out += R"(,"top_logprobs":[)";
    for (const TokenLogProbability& token : score.most_probable) {
      if (&token != &score.most_probable.front()) out += ',';
      append_token(out, token);
      out += '}';
    }
    out += "]}";
  }
}

}  // namespace gpux::server
