#include "server/protocols/tei/treatment.h"

#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8_prefix.h"

namespace gpux::server::tei {
namespace {

void choose_prompt(const ServedModel& model, const std::string& name, embedding::EmbedOptions& options) {
  std::vector<std::string> names;
  if (model.encoder()) {
    if (embedding::choose_prompt(model.encoder()->model(), name, options)) return;
    names = embedding::prompt_names(model.encoder()->model());
  }
  throw Error(ErrorCode::invalid_input,
              fmt::format("prompt_name is '{}'; {}", utf8_prefix(name, 60),
                          names.empty() ? "the model has no prompts" : "accepted: " + join(names)));
}

}  // namespace

std::string prompt_named(const ServedModel& model, const std::string& name) {
  embedding::EmbedOptions options;
  choose_prompt(model, name, options);
  return options.prompt.value_or("");
}

void apply(const TextTreatment& treatment, const ServedModel& model, EmbedJobOptions& options) {
  options.embed.truncate = treatment.truncate;
  if (treatment.truncate_left) options.embed.truncate_left = true;
  if (!treatment.prompt_name.empty()) choose_prompt(model, treatment.prompt_name, options.embed);
}

}  // namespace gpux::server::tei
