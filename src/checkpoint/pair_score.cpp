#include "checkpoint/pair_score.h"

#include <algorithm>
#include <map>
#include <regex>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/module_list.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

namespace fs = std::filesystem;
using Part = PairTemplate::Part;
using Slot = PairTemplate::Slot;

constexpr std::size_t max_template_bytes = std::size_t{64} << 10;
constexpr std::size_t max_tag_bytes = 2000;  // std::regex recurses

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// "a\nb" in quotes; empty where it is not one string.
std::optional<std::string> string_literal(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || (text.front() != '"' && text.front() != '\'') || text.back() != text.front())
    return std::nullopt;
  const char quote = text.front();
  std::string value;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == quote) return std::nullopt;
    if (text[i] != '\\') {
      value += text[i];
      continue;
    }
    if (++i + 1 >= text.size()) return std::nullopt;
    switch (text[i]) {
      case 'n':
        value += '\n';
        break;
      case 't':
        value += '\t';
        break;
      case '\\':
      case '"':
      case '\'':
        value += text[i];
        break;
      default:
        return std::nullopt;
    }
  }
  return value;
}

/// Renders a template into parts.
class Template {
 public:
  explicit Template(std::string_view instruction) : instruction_(instruction) {}

  std::optional<std::vector<Part>> parse(std::string_view jinja) {
    // Jinja drops one newline at the end of a template.
    if (jinja.ends_with('\n')) jinja.remove_suffix(1);
    bool trims_next = false, is_line_start = true;
    while (!jinja.empty()) {
      const std::size_t open = next_tag(jinja);
      std::string_view literal = jinja.substr(0, open);
      if (trims_next) literal.remove_prefix(std::min(literal.find_first_not_of(" \t\r\n"), literal.size()));
      if (open == std::string_view::npos) {
        add(literal);
        break;
      }
      const char kind = jinja[open + 1];
      const std::size_t close = jinja.find(kind == '{' ? "}}" : kind == '%' ? "%}" : "#}", open + 2);
      if (close == std::string_view::npos) return std::nullopt;
      std::string_view content = jinja.substr(open + 2, close - open - 2);
      if (content.size() > max_tag_bytes) return std::nullopt;
      jinja.remove_prefix(close + 2);
      literal = before_tag(literal, content, kind, is_line_start);
      add(literal);
      trims_next = content.ends_with('-');
      if (trims_next) content.remove_suffix(1);
      if (content.starts_with('-') || content.starts_with('+')) content.remove_prefix(1);
      is_line_start = kind != '{' && !trims_next && jinja.starts_with('\n');
      if (is_line_start) jinja.remove_prefix(1);  // trim_blocks
      if (!apply(content, kind)) return std::nullopt;
    }
    return std::move(parts_);
  }

 private:
  static std::size_t next_tag(std::string_view text) {
    std::size_t open = text.find('{');
    while (open != std::string_view::npos && open + 1 < text.size()) {
      const char next = text[open + 1];
      if (next == '{' || next == '%' || next == '#') return open;
      open = text.find('{', open + 1);
    }
    return std::string_view::npos;
  }

  // The literal before a tag, without the whitespace that the tag takes away.
  static std::string_view before_tag(std::string_view literal, std::string_view content, char kind,
                                     bool is_line_start) {
    if (content.starts_with('-')) return literal.substr(0, literal.find_last_not_of(" \t\r\n") + 1);
    if (kind == '{' || content.starts_with('+')) return literal;
    const std::size_t end = literal.find_last_not_of(" \t");  // lstrip_blocks
    if (end == std::string_view::npos) return is_line_start ? std::string_view() : literal;
    return literal[end] == '\n' ? literal.substr(0, end + 1) : literal;
  }

  bool apply(std::string_view content, char kind) {
    if (kind == '#') return true;
    if (kind == '{') {
      const std::optional<Part> part = value_of(content);
      if (part) add(*part);
      return part.has_value();
    }
    static const std::regex set(R"(^\s*set\s+([A-Za-z_]\w*)\s*=([\s\S]*)$)");
    const std::string text(content);
    std::smatch found;
    if (!std::regex_match(text, found, set)) return false;
    const std::optional<Part> part = value_of(found[2].str());
    if (part) names_[found[1].str()] = *part;
    return part.has_value();
  }

  std::optional<Part> value_of(std::string_view expression) {
    expression = trimmed(expression);
    if (const auto literal = string_literal(expression)) return Part{.text = *literal};
    if (const auto name = names_.find(std::string(expression)); name != names_.end()) return name->second;
    static const std::regex by_map(
        R"re(^messages\s*\|\s*selectattr\(\s*["']role["']\s*,\s*["'](?:eq|equalto|==)["']\s*,\s*["'](\w+)["']\s*\)\s*\|\s*map\(\s*attribute\s*=\s*["']content["']\s*\)\s*\|\s*first\s*(?:\|\s*default\(([\s\S]*)\))?$)re");
    static const std::regex by_first(
        R"re(^\(\s*messages\s*\|\s*selectattr\(\s*["']role["']\s*,\s*["'](?:eq|equalto|==)["']\s*,\s*["'](\w+)["']\s*\)\s*\|\s*first\s*\)\s*(?:\.content|\[["']content["']\])(?:\[0\]\.text|\[0\]\[["']text["']\])?$)re");
    const std::string text(expression);
    std::smatch found;
    if (!std::regex_match(text, found, by_map) && !std::regex_match(text, found, by_first)) return std::nullopt;
    const std::string role = found[1].str();
    if (role == "query") return Part{.slot = Slot::query};
    if (role == "document") return Part{.slot = Slot::document};
    if (role != "system") return std::nullopt;
    if (!instruction_.empty()) return Part{.text = std::string(instruction_)};
    std::string otherwise = found.size() > 2 ? found[2].str() : std::string();
    static const std::regex also_empty(R"(,\s*(?:true|True|boolean\s*=\s*(?:true|True))\s*$)");
    otherwise = std::regex_replace(otherwise, also_empty, "");
    if (const auto name = names_.find(otherwise); name != names_.end()) return name->second;
    const std::optional<std::string> usual = string_literal(otherwise);
    return usual ? std::optional<Part>(Part{.text = *usual}) : std::nullopt;
  }

  void add(const Part& part) {
    if (part.slot == Slot::text) return add(std::string_view(part.text));
    parts_.push_back(part);
  }

  void add(std::string_view literal) {
    if (literal.empty()) return;
    if (!parts_.empty() && parts_.back().slot == Slot::text) {
      parts_.back().text += literal;
    } else {
      parts_.push_back({.text = std::string(literal)});
    }
  }

  std::string_view instruction_;
  std::map<std::string, Part> names_;
  std::vector<Part> parts_;
};

std::string chat_template_in(const fs::path& folder) {
  std::error_code unreadable;
  if (fs::is_regular_file(folder / "chat_template.jinja", unreadable)) return read_file(folder / "chat_template.jinja");
  const JsonSettings tokenizer(folder / "tokenizer_config.json");
  const JsonSettings::Json* found = tokenizer.find("chat_template");
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

// The folder of the module of that kind, by modules.json.
std::optional<fs::path> module_folder(const fs::path& folder, std::string_view kind) {
  const std::vector<Module> modules =
      read_modules(JsonSettings(folder / "modules.json", JsonSettings::Json::value_t::array));
  const auto found = std::ranges::find(modules, kind, &Module::kind);
  if (found == modules.end()) return std::nullopt;
  return folder / found->folder;
}

std::optional<std::int64_t> token_in(const JsonSettings& settings, const char* key) {
  const JsonSettings::Json* value = settings.find(key);
  if (value == nullptr) return std::nullopt;
  constexpr std::int64_t limit = std::int64_t{1} << 30;
  if (!value->is_number_integer() || *value < 0 || *value > limit)
    settings.refuse_value(key, *value, "the id of a token");
  return value->get<std::int64_t>();
}

}  // namespace

std::string default_prompt_in(const fs::path& folder) {
  const JsonSettings settings(folder / "config_sentence_transformers.json");
  const std::string name = settings.text("default_prompt_name");
  if (name.empty()) return {};
  const std::string prompt = settings.object("prompts").text(name.c_str());
  if (prompt.empty() && !settings.object("prompts").json().contains(name)) {
    settings.refuse(fmt::format("default_prompt_name is '{}', and there is no such prompt", name));
  }
  return prompt;
}

std::string PairTemplate::prefix(std::string_view query, std::string_view document) const {
  std::string text;
  for (const Part& part : parts) {
    text += part.slot == Slot::query ? query : part.slot == Slot::document ? document : std::string_view(part.text);
  }
  return text;
}

std::optional<PairTemplate> parse_pair_template(std::string_view jinja, std::string_view instruction) {
  if (jinja.size() > max_template_bytes) return std::nullopt;
  std::optional<std::vector<Part>> parts = Template(instruction).parse(jinja);
  if (!parts) return std::nullopt;
  const auto times = [&](Slot slot) { return std::ranges::count(*parts, slot, &Part::slot); };
  if (times(Slot::query) == 0 || times(Slot::document) == 0) return std::nullopt;
  PairTemplate made;
  if (parts->back().slot == Slot::text) {
    made.suffix = std::move(parts->back().text);
    parts->pop_back();
  }
  made.parts = *std::move(parts);
  return made;
}

std::optional<PairScore> read_pair_score(const fs::path& folder) {
  const std::optional<fs::path> module = module_folder(folder, "LogitScore");
  if (!module) return std::nullopt;
  const JsonSettings settings(*module / "config.json");
  if (!settings.exists()) settings.refuse("is not there, and modules.json names its LogitScore");
  PairScore score;
  const std::optional<std::int64_t> true_token = token_in(settings, "true_token_id");
  if (!true_token) settings.refuse("has no true_token_id");
  score.true_token = *true_token;
  score.false_token = token_in(settings, "false_token_id");
  const std::string input = settings.text("module_input_name");
  if (!input.empty() && input != "causal_logits") settings.refuse_value("module_input_name", input, "causal_logits");
  const std::string jinja = chat_template_in(folder);
  if (jinja.empty()) return score;
  score.pair_template = parse_pair_template(jinja, default_prompt_in(folder));
  if (!score.pair_template) {
    throw Error(ErrorCode::invalid_model,
                format_message("{}: its chat template is not supported; accepted: literal text with the content of the "
                               "messages of the roles query, document and system, as sentence-transformers' rerankers "
                               "have it",
                               file_at(folder)));
  }
  return score;
}

}  // namespace gpux::checkpoint
