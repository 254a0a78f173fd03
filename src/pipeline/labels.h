#pragma once

#include <string>
#include <vector>

#include "gpux/label_score.h"
#include "gpux/tensor.h"
#include "project/project_file.h"

namespace gpux::pipeline {

/// Scores of one output with their labels, best first: one list for each position of all dimensions but the last.
/// Scores are the raw values, or what the declared activation makes of them along the last dimension; at most `top_k`.
/// Error invalid_config where the number of labels is not the last dimension's size, or the output holds no numbers.
std::vector<std::vector<LabelScore>> label_scores(const DeclaredValue& declared, const Tensor& output);

}  // namespace gpux::pipeline
