#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpux/generator.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpux::cli {

/// The settings of generated texts as flags.
struct GenerationFlags {
  GenerationSettings settings;  ///< without the constraint, which settings_of() adds
  bool json_object = false;
  std::optional<std::string> json_schema, regex, grammar_file;
};

void add_generation_flags(CLI::App& command, GenerationFlags& flags);

/// How texts are computed, whatever they are.
struct EngineFlags {
  bool no_prompt_lookup = false;
  std::string draft;
  CachePrecision cache_precision = CachePrecision::automatic;
  std::string prompt_cache;
  std::uint64_t prompt_cache_bytes = GeneratorOptions().prompt_cache_bytes;

  [[nodiscard]] GeneratorOptions options() const;
};

void add_engine_flags(CLI::App& command, EngineFlags& flags);
/// GeneratorOptions::prompt_cache and prompt_cache_bytes.
void add_prompt_cache_flags(CLI::App& command, std::string& folder, std::uint64_t& max_bytes);
void add_draft_flag(CLI::App& command, std::string& draft);
void add_cache_precision_flag(CLI::App& command, CachePrecision& precision);

/// Checked. Errors usage; of reading the files that flags name.
GenerationSettings settings_of(const GenerationFlags& flags);

/// Settings that are changed while the program runs, by the names of the flags.
class ChosenSettings {
 public:
  explicit ChosenSettings(GenerationFlags flags) : started_(std::move(flags)) {}

  /// `name` is a flag without its dashes, with - or _; "default" as value is how the program was started. Nothing
  /// changes where it throws. Error usage: an unknown name, or a value that is not accepted.
  void set(std::string_view name, std::string_view value);

  [[nodiscard]] GenerationSettings settings() const;

  /// Names and values that set() was given and that apply, in the order of the names.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& chosen() const noexcept { return chosen_; }

  /// Names that set() accepts.
  [[nodiscard]] static std::vector<std::string> names();

 private:
  using Values = std::vector<std::pair<std::string, std::string>>;

  [[nodiscard]] GenerationFlags flags_with(const Values& values) const;

  GenerationFlags started_;
  Values chosen_;
};

/// "50 tokens after a prompt of 4 (stop): first after 12 ms, then 34.5 tokens/s"
std::string figures_line(const Completion& completion);

/// Adds finish_reason, the numbers of tokens and the times.
void add_figures(nlohmann::ordered_json& document, const Completion& completion);

}  // namespace gpux::cli
