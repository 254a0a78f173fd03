#pragma once

#include <string_view>

#include "gpux/tensor.h"

namespace gpux::embedding {

/// How far the numbers of a text may be apart, in runs of other sizes, of a model that is computed in this precision:
/// |a - b| / |a|. What rounding comes to, with room; what other tokens do to a vector is far more.
double rounding_of(std::string_view precision) noexcept;

/// Whether two outputs of a text's run are as near as that: `got`, the one of a run with more tokens or texts, may have
/// more tokens behind those of `expected`, [1, tokens, …], which do not count. Pure.
bool are_near(const Value& expected, const Value& got, double rounding);

}  // namespace gpux::embedding
