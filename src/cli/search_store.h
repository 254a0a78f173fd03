#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/encoder_flags.h"

namespace gpux::cli {

/// A search in a collection, as the flags of `gpux search --in` say it.
struct StoreSearch {
  std::string url;
  std::vector<std::string> where;
  bool is_exact = false, is_hybrid = false;
  std::string reranker;  ///< a model that ranks what was found; empty: none
  std::size_t count = 10;
};

/// Embeds the query, searches for it and prints what was found. Error invalid_input where the collection has vectors of
/// another model.
void search_store(const StoreSearch& search, const EncoderFlags& encoder, const std::string& query,
                  const Context& context);

/// The same for a vector.
void search_store(const StoreSearch& search, std::vector<float> query, const Context& context);

}  // namespace gpux::cli
