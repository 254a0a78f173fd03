// Encodes texts for scripts/trials/tokenizer-trials: a JSON object a line in, one out.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "text/tokenizer.h"

namespace {

using nlohmann::json;

json encode(const gpux::text::Tokenizer& tokenizer, const json& wanted) {
  gpux::text::EncodeOptions options;
  options.max_tokens = wanted.value("max_tokens", std::size_t{0});
  options.special_tokens = wanted.value("special", true);
  options.truncate_left = wanted.value("left", false);
  options.offsets = gpux::text::Offsets::characters;
  const std::string strategy = wanted.value("strategy", "longest_first");
  if (strategy == "only_first") options.truncation = gpux::text::PairTruncation::first_only;
  if (strategy == "only_second") options.truncation = gpux::text::PairTruncation::second_only;
  const std::string text = wanted.at("text");
  try {
    const auto encoding = wanted.contains("pair") ? tokenizer.encode(text, wanted["pair"].get<std::string>(), options)
                                                  : tokenizer.encode(text, options);
    return {{"ids", encoding.ids()},
            {"type_ids", encoding.type_ids()},
            {"special", encoding.special_tokens_mask()},
            {"offsets", encoding.offsets()},
            {"decoded", tokenizer.decode(encoding.ids())}};
  } catch (const gpux::Error& error) {
    return {{"error", error.message()}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw gpux::Error(gpux::ErrorCode::usage, "usage: encode_lines TOKENIZER_JSON");
    const auto tokenizer = gpux::text::Tokenizer::from_file(argv[1]);
    std::ios::sync_with_stdio(false);
    std::string line;
    while (std::getline(std::cin, line)) std::cout << encode(tokenizer, json::parse(line)).dump() << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "encode_lines: %s\n", error.what());
    return 1;
  }
}
