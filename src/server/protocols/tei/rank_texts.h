#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "server/models/served_model.h"
#include "server/protocols/call.h"
#include "server/protocols/tei/requests.h"

namespace gpux::server::tei {

/// Makes the body of the answer of the score of each text.
using BodyOfScores = std::function<std::string(const std::vector<float>& scores)>;

/// Scores how well each text answers the query, and answers the request. `model` is able to rank. The scores of a
/// late-interaction model are MaxSim, with raw_scores as it is, else by the number of the query's tokens; those of
/// others are its logits, without raw_scores through the logistic function.
void rank_texts(const RouteCall& with, const std::shared_ptr<ServedModel>& model,
                const std::shared_ptr<const Rerank>& asked, BodyOfScores body);

/// Indices of the scores, the highest first. NaN is no score to sort by: it goes last. Pure.
std::vector<std::size_t> highest_first(const std::vector<float>& scores);

}  // namespace gpux::server::tei
