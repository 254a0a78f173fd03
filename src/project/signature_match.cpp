#include "project/signature_match.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux {
namespace {

bool same_dimensions(const ValueType& declared, const ValueType& actual) {
  if (!declared.dimensions || !actual.dimensions) return true;
  const auto fits = [](const Dimension& a, const Dimension& b) { return !a.size || !b.size || *a.size == *b.size; };
  return std::equal(declared.dimensions->begin(), declared.dimensions->end(), actual.dimensions->begin(),
                    actual.dimensions->end(), fits);
}

bool same_type(const ValueType& declared, const ValueType& actual) {
  if (declared.kind != actual.kind || declared.element != actual.element) return false;
  return same_dimensions(declared, actual) &&
         std::equal(declared.inner.begin(), declared.inner.end(), actual.inner.begin(), actual.inner.end(), same_type);
}

bool same_rank(const ValueType& a, const ValueType& b) {
  return !a.dimensions || !b.dimensions || a.dimensions->size() == b.dimensions->size();
}

std::string difference(const std::vector<SignatureEntry>& model, const std::vector<SignatureEntry>& other,
                       std::string_view noun) {
  const auto named = [](const std::vector<SignatureEntry>& entries, const std::string& name) {
    return std::find_if(entries.begin(), entries.end(),
                        [&](const SignatureEntry& entry) { return entry.name == name; });
  };
  for (const SignatureEntry& entry : model) {
    const auto found = named(other, entry.name);
    if (found == other.end()) return fmt::format("it has no {} {}", noun, in_quotes(entry.name));
    if (!same_rank(entry.type, found->type) || !same_type(entry.type, found->type)) {
      return fmt::format("its {} {} is {}, and the model's {}", noun, in_quotes(entry.name), to_string(found->type),
                         to_string(entry.type));
    }
  }
  for (const SignatureEntry& entry : other) {
    if (named(model, entry.name) == model.end()) {
      return fmt::format("the model has no {} {}", noun, in_quotes(entry.name));
    }
  }
  return {};
}

std::string shape_text(const ValueType& type) {
  const std::string text = to_string(type);
  return type.dimensions ? text : text.substr(0, text.find('['));
}

class Comparison {
 public:
  explicit Comparison(const ProjectFile& project) : project_(project) {}

  void compare(const std::vector<DeclaredValue>& declared, const std::vector<SignatureEntry>& actual,
               std::string_view noun) {
    std::vector<std::string> names;
    for (const SignatureEntry& entry : actual) names.push_back(entry.name);
    for (const DeclaredValue& value : declared) {
      const auto entry = std::find(names.begin(), names.end(), value.name);
      if (entry == names.end()) {
        add(value.position,
            fmt::format("the model has no {} {}; it has {}", noun, in_quotes(value.name), listed(names)));
      } else {
        compare(value, actual[static_cast<std::size_t>(entry - names.begin())], noun);
      }
    }
  }

  void find_missing(const std::vector<DeclaredValue>& declared, const std::vector<SignatureEntry>& actual) {
    for (const SignatureEntry& entry : actual) {
      const bool found = std::any_of(declared.begin(), declared.end(),
                                     [&](const DeclaredValue& value) { return value.name == entry.name; });
      if (found || !entry.required) continue;
      differences_.push_back(fmt::format("{}: the model's input {} ({}) is not declared", project_.where("inputs"),
                                         in_quotes(entry.name), to_string(entry.type)));
    }
  }

  std::vector<std::string> take() { return std::move(differences_); }

 private:
  void add(yaml::Position position, const std::string& message) {
    differences_.push_back(fmt::format("{}: {}", project_.where(position), message));
  }

  void compare(const DeclaredValue& value, const SignatureEntry& entry, std::string_view noun) {
    // An optional input may be declared by what it holds.
    const bool holds = entry.type.kind == ValueKind::optional && value.type.kind != ValueKind::optional &&
                       !entry.type.inner.empty() && same_type(value.type, entry.type.inner.front());
    if (!holds && !same_type(value.type, entry.type)) {
      add(value.position, fmt::format("{} {} is declared {}, but the model has {}", noun, in_quotes(value.name),
                                      shape_text(value.type), to_string(entry.type)));
    }
    if (value.required == false && entry.required) {
      add(value.position, fmt::format("{} {} is declared not required, but the model has no default for it", noun,
                                      in_quotes(value.name)));
    }
    compare_labels(value, entry);
  }

  void compare_labels(const DeclaredValue& value, const SignatureEntry& entry) {
    if (value.labels.empty() || !entry.type.dimensions || entry.type.dimensions->empty()) return;
    const std::optional<std::int64_t> positions = entry.type.dimensions->back().size;
    if (!positions || *positions == static_cast<std::int64_t>(value.labels.size())) return;
    add(value.position, fmt::format("output {} has {} labels, but the model's last dimension has {} positions",
                                    in_quotes(value.name), value.labels.size(), *positions));
  }

  static std::string listed(const std::vector<std::string>& names) {
    constexpr std::size_t limit = 10;
    std::vector<std::string> shown;
    for (const std::string& name : names) {
      if (shown.size() < limit) shown.push_back(in_quotes(name));
    }
    if (shown.empty()) return "none";
    return join(shown) + (names.size() > limit ? fmt::format(" and {} more", names.size() - limit) : "");
  }

  const ProjectFile& project_;
  std::vector<std::string> differences_;
};

}  // namespace

std::vector<std::string> compare(const ProjectFile& project, const Signature& signature) {
  Comparison comparison(project);
  if (project.inputs) {
    comparison.compare(*project.inputs, signature.inputs, "input");
    comparison.find_missing(*project.inputs, signature.inputs);
  }
  if (project.outputs) comparison.compare(*project.outputs, signature.outputs, "output");
  return comparison.take();
}

std::string difference(const Signature& model, const Signature& other) {
  std::string found = difference(model.inputs, other.inputs, "input");
  return found.empty() ? difference(model.outputs, other.outputs, "output") : found;
}

void require_match(const ProjectFile& project, const Signature& signature) {
  const std::vector<std::string> differences = compare(project, signature);
  if (!differences.empty()) throw Error(ErrorCode::invalid_config, join(differences, "; "));
}

}  // namespace gpux
