#include "cli/texts.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/files.h"
#include "gpux/error.h"
#include "model/bounded_json.h"

namespace gpux::cli {
namespace {

/// The lines of a file, or of standard input.
class Lines {
 public:
  explicit Lines(const std::string& argument)
      : name_(argument == "-" ? "standard input" : argument.substr(1)),
        file_(argument == "-" ? stdin : std::fopen(name_.c_str(), "re")) {
    if (file_ == nullptr) throw_file_error("open", name_, errno);
  }

  ~Lines() {
    std::free(line_);  // NOLINT(cppcoreguidelines-no-malloc): getline's
    if (file_ != stdin) std::fclose(file_);
  }

  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  bool next(std::string& text) {
    const ssize_t length = ::getline(&line_, &room_, file_);
    if (length < 0 && std::ferror(file_) != 0) throw_file_error("read", name_, errno);
    if (length < 0) return false;
    ++number_;
    text.assign(line_, static_cast<std::size_t>(length));
    if (text.ends_with('\n')) text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
    return true;
  }

  /// "texts.jsonl:3"
  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", name_, number_); }

 private:
  std::string name_;
  std::FILE* file_;
  char* line_ = nullptr;
  std::size_t room_ = 0;
  std::uint64_t number_ = 0;
};

bool reads_lines(const std::string& argument) {
  return argument == "-" || argument.starts_with("@");
}

std::string field_of(const std::string& line, const std::string& field, const Lines& lines) {
  const auto refuse = [&](std::string_view what) {
    throw Error(ErrorCode::invalid_input, fmt::format("{}: {}", lines.place(), what));
  };
  nlohmann::ordered_json object;
  try {
    object = parse_bounded_json(line);
  } catch (const nlohmann::ordered_json::exception&) {
    refuse("is not JSON; --field reads an object from each line");
  } catch (const Error& error) {
    refuse(error.message());
  }
  if (!object.is_object()) refuse("is no JSON object");
  const auto found = object.find(field);
  if (found == object.end()) refuse(fmt::format("there is no field '{}'", field));
  if (!found->is_string()) refuse(fmt::format("field '{}' is no text", field));
  return found->get<std::string>();
}

class Texts {
 public:
  Texts(std::vector<std::string> arguments, std::string field)
      : arguments_(std::move(arguments)), field_(std::move(field)) {}

  bool next(std::string& text) {
    for (;;) {
      if (lines_ && next_line(text)) return true;
      lines_.reset();
      if (next_ == arguments_.size()) return false;
      const std::string& argument = arguments_[next_++];
      if (!reads_lines(argument)) {
        text = argument;
        return true;
      }
      lines_ = std::make_unique<Lines>(argument);
    }
  }

 private:
  bool next_line(std::string& text) {
    while (lines_->next(text)) {
      if (field_.empty()) return true;
      if (text.find_first_not_of(" \t") == std::string::npos) continue;
      text = field_of(text, field_, *lines_);
      return true;
    }
    return false;
  }

  std::vector<std::string> arguments_;
  std::string field_;
  std::size_t next_ = 0;
  std::unique_ptr<Lines> lines_;
};

}  // namespace

embedding::TextSource texts_of(std::vector<std::string> arguments, std::string field) {
  if (arguments.empty()) {
    if (::isatty(STDIN_FILENO) != 0) {
      throw Error(ErrorCode::usage, "embed: give texts, @FILE, or - for lines of standard input");
    }
    arguments.emplace_back("-");
  }
  if (!field.empty() && !std::all_of(arguments.begin(), arguments.end(), reads_lines)) {
    throw Error(ErrorCode::usage, "--field is read from lines of @FILE or of standard input, not from texts given");
  }
  const auto texts = std::make_shared<Texts>(std::move(arguments), std::move(field));
  return [texts](std::string& text) { return texts->next(text); };
}

}  // namespace gpux::cli
