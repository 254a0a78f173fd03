#include "model/expected_sizes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/log.h"
#include "checkpoint/sentence_model.h"
#include "embedding/text_batching.h"
#include "gpux/error.h"
#include "project/image_input.h"
#include "runtime/scheduling/batch.h"

namespace gpux {
namespace {

/// Tokens of the largest run of texts that a profile may promise: TensorRT reserves memory for all of them.
constexpr std::int64_t max_profile_tokens = 65536;
/// Of a text that is neither short nor long.
constexpr std::int64_t typical_tokens = 128;

bool takes_tokens(const SignatureEntry& entry) {
  static constexpr std::array<std::string_view, 4> names{"input_ids", "attention_mask", "token_type_ids",
                                                         "position_ids"};
  return entry.type.dimensions && entry.type.dimensions->size() == 2 &&
         std::ranges::find(names, entry.name) != names.end();
}

class Sizes {
 public:
  Sizes(const Signature& signature, const SizeFacts& facts) : signature_(signature), facts_(facts) {}

  std::vector<ExpectedSize> find() {
    for (const SizeFacts::Declared& one : facts_.declared) add_fixed(one.input, one.dimension, one.size, "gpux.yml");
    if (facts_.images) add_images(*facts_.images);
    if (facts_.reads_texts) add_texts();
    if (facts_.max_rows && !facts_.reads_texts) add_rows(*facts_.max_rows, *facts_.max_rows, facts_.rows_from);
    tune();
    return std::move(sizes_);
  }

 private:
  [[nodiscard]] const SignatureEntry* entry_of(const std::string& input) const {
    const auto found = std::ranges::find(signature_.inputs, input, &SignatureEntry::name);
    return found == signature_.inputs.end() ? nullptr : &*found;
  }

  // Only free dimensions, and each once.
  void add(ExpectedSize size) {
    const SignatureEntry* entry = entry_of(size.input);
    const bool is_free = entry != nullptr && entry->type.dimensions &&
                         size.dimension < entry->type.dimensions->size() &&
                         !(*entry->type.dimensions)[size.dimension].size;
    const bool is_known = std::ranges::any_of(sizes_, [&](const ExpectedSize& known) {
      return known.input == size.input && known.dimension == size.dimension;
    });
    if (is_free && !is_known) sizes_.push_back(std::move(size));
  }

  void add_fixed(const std::string& input, std::size_t dimension, std::int64_t size, const std::string& from) {
    add({.input = input, .dimension = dimension, .smallest = size, .tuned = size, .largest = size, .from = from});
  }

  void add_images(const SizeFacts::Images& images) {
    const std::string from = fmt::format("images of {} by {}", images.width, images.height);
    add_fixed(images.input, images.height_dimension, images.height, from);
    add_fixed(images.input, images.width_dimension, images.width, from);
  }

  void add_rows(std::int64_t tuned, std::int64_t largest, const std::string& from) {
    if (!runtime::signature_permits_sharing(signature_)) return;
    for (const SignatureEntry& entry : signature_.inputs) {
      add({.input = entry.name, .dimension = 0, .smallest = 1, .tuned = tuned, .largest = largest, .from = from});
    }
  }

  void add_tokens(std::int64_t smallest, std::int64_t tuned, std::int64_t largest, const std::string& from) {
    for (const SignatureEntry& entry : signature_.inputs) {
      if (!takes_tokens(entry)) continue;
      add({.input = entry.name,
           .dimension = 1,
           .smallest = smallest,
           .tuned = tuned,
           .largest = largest,
           .from = from});
    }
  }

  void leave_open(const std::string& reason) { add_rows(1, 0, reason); }

  void add_texts() {
    if (facts_.max_tokens == 0) return leave_open("nothing says how long a text becomes");
    const auto tokens = static_cast<std::int64_t>(std::min<std::size_t>(facts_.max_tokens, provider_limit));
    const std::int64_t tuned = facts_.fills_up ? tokens : std::min(tokens, typical_tokens);
    add_tokens(facts_.fills_up ? tokens : 1, tuned, tokens, fmt::format("texts of up to {} tokens", tokens));
    const std::int64_t by_default = embedding::batches_on_devices.max_rows;
    const std::int64_t rows = facts_.max_rows.value_or(by_default);
    if (!facts_.max_rows && rows > max_profile_tokens / tokens) {
      return leave_open(
          fmt::format("{} texts of {} tokens would take the memory of {} tokens, and no serving.batch_size says that "
                      "there are fewer",
                      rows, tokens, rows * tokens));
    }
    const std::int64_t tuned_rows = std::clamp<std::int64_t>(embedding::batches_on_devices.max_cost / tuned, 1, rows);
    add_rows(tuned_rows, rows, facts_.max_rows ? facts_.rows_from : fmt::format("runs of up to {} texts", rows));
  }

  // The largest of the sizes that a server is to run first, by name of the dimension or as "input.index".
  void tune() {
    for (ExpectedSize& size : sizes_) {
      const SignatureEntry* entry = entry_of(size.input);
      const std::string name =
          entry == nullptr || !entry->type.dimensions ? std::string() : entry->type.dimensions->at(size.dimension).name;
      const std::string place = fmt::format("{}.{}", size.input, size.dimension);
      std::int64_t largest = 0;
      for (const auto& run : facts_.warm_up) {
        for (const auto& [key, value] : run) {
          if (key == place || (!name.empty() && key == name)) largest = std::max(largest, value);
        }
      }
      if (largest >= size.smallest && largest <= size.largest) size.tuned = largest;
    }
  }

  static constexpr std::size_t provider_limit = 1U << 30U;
  const Signature& signature_;
  const SizeFacts& facts_;
  std::vector<ExpectedSize> sizes_;
};

void read_texts(const LocatedModel& located, const Signature& signature, SizeFacts& facts) {
  if (!std::ranges::any_of(signature.inputs, takes_tokens)) return;
  const auto folder = checkpoint::tokenizer_folder_of(located.onnx_file);
  const bool has_tokenizer = folder || (located.project && located.project->text.tokenizer);
  if (!has_tokenizer) return;
  facts.reads_texts = true;
  if (folder) {
    const checkpoint::TokenLimits limits = checkpoint::read_token_limits(*folder);
    facts.max_tokens = limits.max_tokens;
    facts.fills_up = limits.pads_to_max_tokens;
  }
  if (!located.project) return;
  const DeclaredText& said = located.project->text;
  if (said.max_tokens) facts.max_tokens = *said.max_tokens;
  if (said.fills_up) facts.fills_up = *said.fills_up;
}

void read_rows(const ProjectFile& project, SizeFacts& facts) {
  if (project.serving.batch_size) {
    facts.max_rows = project.serving.batch_size;
    facts.rows_from = "serving.batch_size";
  } else if (project.runtime.batch_size) {
    facts.max_rows = project.runtime.batch_size;
    facts.rows_from = "runtime.batch_size";
  }
}

void read_images(const ProjectFile& project, const Signature& signature, SizeFacts& facts) {
  if (!project.image_tower.empty()) return;
  const auto images = gpux::image_input(&project, signature, {.path = true});
  if (!images) return;
  const image::Recipe& recipe = images->recipe;
  std::optional<image::Size> size = recipe.crop;
  // Of a shorter side the longer one follows from the image.
  if (!size && recipe.resize && recipe.resize->fit != image::Fit::shortest) size = recipe.resize->size;
  if (!size) return;
  const std::size_t first = recipe.layout == image::Layout::nchw ? 2 : 1;
  facts.images = {.input = images->name,
                  .height_dimension = first,
                  .width_dimension = first + 1,
                  .height = size->height,
                  .width = size->width};
  const std::size_t channel_dimension = recipe.layout == image::Layout::nchw ? 1 : 3;
  facts.declared.push_back({.input = images->name,
                            .dimension = channel_dimension,
                            .size = static_cast<std::int64_t>(image::channels_of(recipe.color))});
}

void read_declared(const ProjectFile& project, SizeFacts& facts) {
  if (!project.inputs) return;
  for (const DeclaredValue& input : *project.inputs) {
    if (!input.type.dimensions) continue;
    for (std::size_t i = 0; i < input.type.dimensions->size(); ++i) {
      if (const auto size = (*input.type.dimensions)[i].size) facts.declared.push_back({input.name, i, *size});
    }
  }
}

}  // namespace

std::vector<ExpectedSize> expected_sizes(const Signature& signature, const SizeFacts& facts) {
  return Sizes(signature, facts).find();
}

SizeFacts size_facts(const LocatedModel& located, const Signature& signature) {
  SizeFacts facts;
  if (!located.steps.empty()) {
    if (located.project) facts.warm_up = located.project->serving.warm_up;
    return facts;
  }
  try {
    read_texts(located, signature, facts);
    if (!located.project) return facts;
    read_rows(*located.project, facts);
    read_images(*located.project, signature, facts);
    read_declared(*located.project, facts);
    facts.warm_up = located.project->serving.warm_up;
  } catch (const Error& error) {
    // What uses these settings reports it.
    log::debug("the sizes of {}'s inputs are not known: {}", located.onnx_file.string(), error.message());
  }
  return facts;
}

}  // namespace gpux
