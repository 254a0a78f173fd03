#include "model/required_precision.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "runtime/loading/precision_variant.h"

namespace gpux {
namespace {

std::string described(const PrecisionVariant& variant) {
  return fmt::format("{} (a variant for {})", variant.precision,
                     variant.provider == "cpu" ? "the CPU" : "accelerators");
}

}  // namespace

std::string precision_problem(const std::string& by, const std::string& requested, const std::string& active,
                              const std::string& own, std::span<const PrecisionVariant> variants) {
  if (requested.empty() || requested == "any" || requested == active) return {};
  // Without weights every computation is in what its inputs are.
  if (active.empty() && requested == "fp32") return {};
  const auto is_requested = [&](const PrecisionVariant& variant) { return variant.precision == requested; };
  if (std::ranges::any_of(variants, is_requested)) return {};
  std::vector<std::string> there;
  if (!own.empty()) there.push_back(fmt::format("{} (the model itself)", own));
  for (const PrecisionVariant& variant : variants) there.push_back(described(variant));
  std::string problem = fmt::format("{} {}: the model would run in {}; it has {}", by, requested,
                                    active.empty() ? "what it is given" : active,
                                    there.empty() ? "no weights, and no variants" : join(there));
  if (requested == "int8" || requested == "fp16") {
    problem += fmt::format("; 'gpux build --quantize {}' makes a variant", requested);
  }
  return problem;
}

void require_precision(const Runtime& runtime, const LoadSettings& settings) {
  const MaybeSetting<std::string>& asked = settings.request.precision;
  if (!asked || !is_asked_now(asked->source) || runtime.verdict().fell_back) return;
  const std::string problem =
      precision_problem(asked->source.name, settings.options.precision, runtime.verdict().precision,
                        runtime::precision_of(runtime.info()), settings.options.precision_variants);
  if (!problem.empty()) throw Error(ErrorCode::usage, problem);
}

}  // namespace gpux
