#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace gpux {

/// How vectors are compared. Higher scores are nearer: distances are negative.
enum class Similarity : std::uint8_t { cosine, dot, euclidean, manhattan };

/// The names of the measures, as sentence-transformers spells them (similarity_fn_name).
inline constexpr std::array<std::pair<std::string_view, Similarity>, 4> similarity_names{
    {{"cosine", Similarity::cosine},
     {"dot", Similarity::dot},
     {"euclidean", Similarity::euclidean},
     {"manhattan", Similarity::manhattan}}};

}  // namespace gpux
