#include "model/open_encoder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/machine.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "checkpoint/image_project.h"
#include "embedding/graph_pooling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "model/level_choice.h"
#include "model/open_image_encoder.h"
#include "model/open_model.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

struct Chosen {
  checkpoint::SentenceModel model;
  LocatedModel located;
};

Chosen in_folder(const std::string& folder) {
  Chosen chosen{checkpoint::read_sentence_model(folder), {}};
  chosen.located.onnx_file = chosen.model.onnx_file;
  chosen.located.name = chosen.model.name;
  return chosen;
}

Chosen with_texts(LocatedModel located, const std::string& name) {
  std::optional<checkpoint::SentenceModel> found = checkpoint::sentence_model_of(located.onnx_file);
  if (!found && image_tower_of(located)) {
    throw Error(ErrorCode::usage,
                fmt::format("'{}' makes vectors of images, not of texts: give images as @FILE or @FOLDER", name));
  }
  if (!found) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}' has no tokenizer.json next to its ONNX file, so it cannot read texts", name));
  }
  found->name = located.name;
  return {*std::move(found), std::move(located)};
}

// A folder of Hugging Face's layout, or whatever a MODEL argument means elsewhere.
Chosen find_model(const std::string& model) {
  std::error_code unreadable;
  if (fs::is_directory(model, unreadable) && !project_file_in(model) && !checkpoint::read_image_project(model)) {
    return in_folder(model);
  }
  if (fs::is_regular_file(model, unreadable) && fs::path(model).extension() != ".onnx") {
    throw Error(
        ErrorCode::usage,
        format_message(
            "{} '{}' is no model: accepted are a folder with tokenizer.json and model.onnx, and a name in the store",
            setting_named("model"), model));
  }
  LocatedModel located = locate(model, open_store());
  require_one_model(located, "what makes vectors");
  return with_texts(std::move(located), model);
}

Chosen named_model(const EncoderFlags& flags) {
  if (flags.located) require_one_model(*flags.located, "what makes vectors");
  try {
    return flags.located ? with_texts(*flags.located, flags.model) : find_model(flags.model);
  } catch (const Error& error) {
    // Who gives a text alone has not said which model.
    const bool is_no_model = error.code() == ErrorCode::not_found || error.code() == ErrorCode::usage;
    if (!flags.model_is_word || !is_no_model) throw;
    throw error.followed_by(
        format_message("; the first word is the model, unless -m or {} names it", setting_named("level")));
  }
}

// In the folder of models that op-dbus keeps, or in the store.
Chosen level_model(const embedding::Level& level, const fs::path& folder) {
  std::string looked;
  std::error_code unreadable;
  if (!folder.empty()) {
    const fs::path place = folder / level.model;
    if (fs::is_directory(place, unreadable)) return in_folder(place);
    looked = fmt::format("there is no folder '{}', and ", place.string());
  }
  const std::string name = embedding::stored_name(level);
  const Store store = open_store();
  if (store.find(parse_reference(name))) return with_texts(locate(name, store), name);
  throw Error(ErrorCode::not_found,
              fmt::format("level {0} is the model {1} of sentence-transformers, which is not here: {2}the store has no "
                          "'{3}'; copy its folder to this machine, then: gpux import FOLDER -t {3}",
                          level.name, level.model, looked, name));
}

void apply_prompt(const EncoderFlags& flags, const checkpoint::SentenceModel& model, embedding::EmbedOptions& options) {
  if (flags.prompt.empty()) {
    const std::string problem = utf8_problem(flags.prompt_text.value_or(""));
    if (!problem.empty())
      throw Error(ErrorCode::invalid_input, format_message("{} is {}", setting_named("prompt_text"), problem));
    options.prompt = flags.prompt_text;
    return;
  }
  if (embedding::choose_prompt(model, flags.prompt, options)) return;
  const std::vector<std::string> names = embedding::prompt_names(model);
  throw Error(ErrorCode::usage,
              format_message("{} '{}': {}; {} takes any text", setting_named("prompt"), flags.prompt,
                             names.empty() ? "the model's folder names no prompts" : "accepted: " + join(names),
                             setting_named("prompt_text")));
}

// OpenVINO has threads of its own, whose number is a run's where several texts share it, and a text's else.
void add_openvino_threads(std::optional<TextBatching> batching, LoadOptions& options) {
  if (options.provider.find("openvino") == std::string::npos) return;
  const auto of_openvino = [](const ProviderOptions& given) { return given.provider == "openvino"; };
  if (std::ranges::any_of(options.provider_options, of_openvino)) return;
  const std::string processors = std::to_string(usable_processors(Machine::this_one()));
  ProviderOptions own{.provider = "openvino", .values = {{"num_of_threads", processors}}, .where = {}};
  if (batching != TextBatching::throughput) own.values.emplace_back("num_streams", processors);
  options.provider_options.push_back(std::move(own));
}

// Its runs that go on at once, where it has been told its threads.
std::optional<unsigned> openvino_streams(const LoadOptions& options) {
  for (const ProviderOptions& given : options.provider_options) {
    if (given.provider != "openvino") continue;
    const auto value_of = [&](std::string_view key) -> std::string {
      const auto found = std::ranges::find(given.values, key, [](const auto& option) { return option.first; });
      return found == given.values.end() ? std::string() : found->second;
    };
    if (value_of("num_of_threads").empty()) continue;
    const std::string streams = value_of("num_streams");
    unsigned number = 1;
    (void)std::from_chars(streams.data(), streams.data() + streams.size(), number);
    return std::clamp(number, 1U, 1024U);
  }
  return std::nullopt;
}

LoadSettings settings_of(const EncoderFlags& flags, const LocatedModel& located) {
  LoadSettings settings = resolve_load(flags.load, located);
  if (settings.options.intra_threads) return settings;
  // Texts run side by side, not the parts of one.
  settings.options.intra_threads = 1;
  add_openvino_threads(flags.batching, settings.options);
  return settings;
}

// The digest of the file that most likely runs, computed while it is loaded: each takes about as long as the other.
class DigestMeanwhile {
 public:
  explicit DigestMeanwhile(std::filesystem::path file) : file_(std::move(file)) {
    try {
      thread_ = std::jthread([this](const std::stop_token& stop) {
        try {
          digest_ = digest_of_weights(file_, stop);
        } catch (const std::exception&) {
          digest_.clear();  // of() meets it again, and reports it
        }
      });
    } catch (const std::system_error&) {
      digest_.clear();  // no thread: of() does it
    }
  }

  /// Of that file, or of another.
  std::string of(const std::filesystem::path& file) {
    if (file != file_) thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    return file != file_ || digest_.empty() ? digest_of_weights(file) : digest_;
  }

 private:
  std::filesystem::path file_;
  std::string digest_;
  std::jthread thread_;  // the last member: stopped and waited for before the others go
};

// Why texts share runs, where they do without a trial.
std::string batching_line(const embedding::TextEmbedder& embedder) {
  if (embedder.encoder().batching() != TextBatching::throughput) return {};
  const embedding::TextSharing batching = embedder.batching(false);
  if (!batching.sharing.shared) return fmt::format("texts run one by one: {}", batching.sharing.reason);
  return fmt::format("texts of {} share runs of up to {} texts and {} tokens: {}",
                     embedder.encoder().filling_problem().empty() ? "similar lengths" : "one length",
                     batching.limits.max_rows, batching.limits.max_cost, batching.sharing.reason);
}

OpenEncoder open_chosen(Chosen chosen, const EncoderFlags& flags, const Teller& tell) {
  auto& [model, located] = chosen;
  OpenModel opened{.located = located, .info = {}, .settings = settings_of(flags, located)};
  opened.info = ModelInspector::inspect(located.onnx_file);
  opened.settings.options.pooled_output = embedding::graph_pooling(model, opened.info.signature);
  const LoadOptions& load = opened.settings.options;
  OpenEncoder encoder{.embedder = nullptr,
                      .options = {.max_tokens = flags.max_tokens,
                                  .dimensions = flags.dimensions,
                                  .normalize = flags.normalize,
                                  .timeout = opened.settings.timeout(),
                                  .representation = flags.representation,
                                  .sparse = flags.sparse},
                      .level = {},
                      .digest = {},
                      .dimension = flags.dimensions,
                      .workers = std::max(1U, usable_processors(Machine::this_one()) / load.intra_threads.value_or(1))};
  apply_prompt(flags, model, encoder.options);
  DigestMeanwhile digest(located.onnx_file);
  encoder.embedder = std::make_unique<embedding::TextEmbedder>(std::move(model), opened.load(), flags.batching);
  encoder.embedder->encoder().check(encoder.options);
  const std::vector<std::string>& active = encoder.embedder->runtime().verdict().active;
  if (!active.empty() && active.front() == "openvino") {
    encoder.workers = openvino_streams(load).value_or(encoder.workers);
  }
  encoder.digest = digest_of_vectors(located, digest.of(encoder.embedder->runtime().weights_file()));
  if (encoder.dimension == 0) encoder.dimension = encoder.embedder->encoder().dimension(encoder.options);
  tell(to_line(encoder.embedder->runtime().verdict(), flags.name_of));
  if (const std::string line = batching_line(*encoder.embedder); !line.empty()) tell(line);
  return encoder;
}

OpenEncoder open_level(const embedding::Level& level, const EncoderFlags& flags, const Teller& tell) {
  Chosen chosen = level_model(level, model_folder(flags.model_dir));
  apply_level(level, chosen.model);
  chosen.model.name = level.model;
  OpenEncoder encoder = open_chosen(std::move(chosen), flags, tell);
  const std::size_t dimension = encoder.embedder->encoder().dimension();
  if (dimension != level.dimension) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("level {} is the model {}, of {} dimensions; what is kept under its name has {}",
                            level.name, level.model, level.dimension, dimension));
  }
  encoder.level = level.name;
  return encoder;
}

}  // namespace

bool asks_for_nothing(const EncoderFlags& flags) {
  return flags.model.empty() && choose_level(flags.level).is_none;
}

OpenEncoder open_encoder(const EncoderFlags& given, const Teller& tell) {
  EncoderFlags flags = given;
  apply_op_dbus(flags.load);
  if (!flags.model.empty()) return open_chosen(named_model(flags), flags, tell);
  const LevelChoice choice = choose_level(flags.level);
  if (choice.level == nullptr) {
    throw Error(ErrorCode::usage,
                format_message("give the model, as the first word or with -m: a folder with tokenizer.json and "
                               "model.onnx, or a name in the store; or {} low, medium or high",
                               setting_named("level")));
  }
  try {
    return open_level(*choice.level, flags, tell);
  } catch (const Error& error) {
    const embedding::Level* below = flags.level_fallback ? embedding::level_below(*choice.level) : nullptr;
    if (below == nullptr || (error.code() != ErrorCode::not_found && error.code() != ErrorCode::invalid_model)) throw;
    tell(fmt::format("level {} instead of {}: {}", below->name, choice.level->name, error.message(flags.name_of)));
    return open_level(*below, flags, tell);
  }
}

}  // namespace gpux
