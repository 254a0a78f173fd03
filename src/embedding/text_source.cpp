#include "embedding/text_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/bounded_json.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "base/standard_input.h"
#include "base/utf8.h"
#include "gpux/error.h"
#include "text/csv.h"

namespace gpux::embedding {
namespace {

constexpr std::size_t limit_one_text = std::size_t{64} << 20;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The texts of a file, or of standard input.
class TextFile {
 public:
  TextFile() = default;
  virtual ~TextFile() = default;
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  virtual bool next(std::string& text) = 0;

  /// The other fields of the record whose text next() gave last.
  [[nodiscard]] virtual nlohmann::json fields() const = 0;

  [[nodiscard]] virtual std::uint64_t bytes_read() const = 0;
};

/// Open for reading, closed in the end.
class OpenFile {
 public:
  explicit OpenFile(const std::string& argument)
      : name_(is_standard_input(argument) ? "standard input" : argument.substr(1)),
        file_(is_standard_input(argument) ? stdin : std::fopen(name_.c_str(), "re")) {
    if (file_ == nullptr) throw_file_error("open", name_, errno);
  }

  ~OpenFile() {
    if (file_ != stdin) std::fclose(file_);
  }

  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] std::FILE* get() const { return file_; }

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::FILE* file_;
};

/// Its lines; or what a field of theirs says.
class Lines final : public TextFile {
 public:
  Lines(const std::string& argument, const TextForm& form)
      : file_(argument),
        field_(form.field),
        numbers_(form.keeps_fields ? WholeNumbers::exact : WholeNumbers::rounded) {}

  ~Lines() override {
    std::free(line_);  // NOLINT(cppcoreguidelines-no-malloc): getline's
  }

  bool next(std::string& text) override {
    while (next_line(text)) {
      if (field_.empty()) return true;
      if (text.find_first_not_of(" \t") == std::string::npos) continue;
      text = field_of(text);
      return true;
    }
    return false;
  }

  [[nodiscard]] nlohmann::json fields() const override { return fields_; }

  [[nodiscard]] std::uint64_t bytes_read() const override { return bytes_; }

 private:
  bool next_line(std::string& text) {
    const ssize_t length = ::getline(&line_, &room_, file_.get());
    if (length < 0 && std::ferror(file_.get()) != 0) throw_file_error("read", file_.name(), errno);
    if (length < 0) return false;
    ++number_;
    text.assign(line_, static_cast<std::size_t>(length));
    if (const std::string problem = file_text_problem(text, bytes_); !problem.empty()) refuse({problem});
    if (bytes_ == 0 && text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
    bytes_ += static_cast<std::uint64_t>(length);
    if (text.ends_with('\n')) text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
    return true;
  }

  [[noreturn]] void refuse(const Message& what) const {
    throw Error(ErrorCode::invalid_input, format_message("{}:{}: {}", file_.name(), number_, what));
  }

  [[nodiscard]] std::string field_of(const std::string& line) {
    nlohmann::json object;
    try {
      object = parse_bounded_json(line, numbers_);
    } catch (const nlohmann::json::exception&) {
      refuse(format_message("is not JSON; {} reads an object from each line", setting_named("field")));
    } catch (const Error& error) {
      refuse({error.message()});
    }
    if (!object.is_object()) refuse({"is no JSON object"});
    const auto found = object.find(field_);
    if (found == object.end()) refuse({fmt::format("there is no field '{}'", field_)});
    if (!found->is_string()) refuse({fmt::format("field '{}' is no text", field_)});
    std::string text = found->get<std::string>();
    object.erase(found);
    fields_ = std::move(object);
    return text;
  }

  OpenFile file_;
  const std::string& field_;
  WholeNumbers numbers_;
  nlohmann::json fields_ = nlohmann::json::object();
  char* line_ = nullptr;
  std::size_t room_ = 0;
  std::uint64_t number_ = 0, bytes_ = 0;
};

/// A column of its records.
class Column final : public TextFile {
 public:
  Column(const std::string& argument, const std::string& column) : file_(argument), reader_(file_.get(), file_.name()) {
    if (!reader_.next(fields_)) refuse(format_message("{} '{}': there is no header", setting_named("column"), column));
    width_ = fields_.size();
    const auto found = std::find(fields_.begin(), fields_.end(), column);
    if (found == fields_.end()) {
      refuse({fmt::format("there is no column '{}'; the header has {}", column, join(fields_))});
    }
    if (std::find(found + 1, fields_.end(), column) != fields_.end()) {
      refuse({fmt::format("there are two columns '{}'", column)});
    }
    index_ = static_cast<std::size_t>(found - fields_.begin());
    header_ = fields_;
  }

  bool next(std::string& text) override {
    if (!reader_.next(fields_)) return false;
    if (fields_.size() != width_) refuse({fmt::format("{} fields, the header has {}", fields_.size(), width_)});
    text = std::move(fields_[index_]);
    return true;
  }

  [[nodiscard]] nlohmann::json fields() const override {
    nlohmann::json others = nlohmann::json::object();
    for (std::size_t i = 0; i < header_.size(); ++i) {
      if (i != index_) others[header_[i]] = fields_[i];
    }
    return others;
  }

  [[nodiscard]] std::uint64_t bytes_read() const override { return reader_.bytes(); }

 private:
  [[noreturn]] void refuse(const Message& what) const {
    throw Error(ErrorCode::invalid_input, format_message("{}: {}", reader_.place(), what));
  }

  OpenFile file_;
  text::CsvReader reader_;
  std::vector<std::string> header_, fields_;
  std::size_t width_ = 0, index_ = 0;
};

bool reads_file(const std::string& argument) {
  return argument == "-" || argument.starts_with("@");
}

// Of what is still to be read; empty where it cannot be known.
std::optional<std::uint64_t> bytes_of(const std::string& argument) {
  if (!reads_file(argument)) return argument.size() + 1;

  struct stat status {};

  const bool is_stdin = is_standard_input(argument);
  const int failed = is_stdin ? ::fstat(STDIN_FILENO, &status) : ::stat(argument.c_str() + 1, &status);
  if (failed != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const off_t before = is_stdin ? ::lseek(STDIN_FILENO, 0, SEEK_CUR) : 0;
  return static_cast<std::uint64_t>(std::max<off_t>(status.st_size - std::max<off_t>(before, 0), 0));
}

std::optional<std::uint64_t> bytes_of(const std::vector<std::string>& arguments) {
  std::uint64_t sum = 0;
  for (const std::string& argument : arguments) {
    const auto bytes = bytes_of(argument);
    if (!bytes) return std::nullopt;
    sum += *bytes;
  }
  return sum;
}

class Arguments {
 public:
  Arguments(std::vector<std::string> arguments, TextForm form)
      : arguments_(std::move(arguments)), form_(std::move(form)), bytes_(bytes_of(arguments_)) {}

  bool next(std::string& text) {
    for (;;) {
      if (file_ && file_->next(text)) {
        read_ = read_before_ + file_->bytes_read();
        return true;
      }
      if (file_) read_before_ += file_->bytes_read();
      file_.reset();
      if (next_ == arguments_.size()) return false;
      const std::string& argument = arguments_[next_++];
      if (!reads_file(argument)) {
        text = argument;
        read_before_ += argument.size() + 1;
        read_ = read_before_;
        return true;
      }
      file_ = open(argument);
    }
  }

  // The file of the latest text is open until the next one is requested.
  [[nodiscard]] nlohmann::json fields() const { return file_ ? file_->fields() : nlohmann::json::object(); }

  [[nodiscard]] std::optional<double> share_read() const {
    if (!bytes_) return std::nullopt;
    if (*bytes_ == 0) return 1;
    return std::min(1.0, static_cast<double>(read_) / static_cast<double>(*bytes_));
  }

 private:
  [[nodiscard]] std::unique_ptr<TextFile> open(const std::string& argument) const {
    if (!form_.column.empty()) return std::make_unique<Column>(argument, form_.column);
    return std::make_unique<Lines>(argument, form_);
  }

  std::vector<std::string> arguments_;
  TextForm form_;
  std::optional<std::uint64_t> bytes_;
  std::size_t next_ = 0;
  std::uint64_t read_before_ = 0;
  std::atomic<std::uint64_t> read_ = 0;
  std::unique_ptr<TextFile> file_;
};

std::string read_all(const OpenFile& file) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (std::feof(file.get()) == 0 && std::ferror(file.get()) == 0) {
    text.append(buffer.data(), std::fread(buffer.data(), 1, buffer.size(), file.get()));
    if (text.size() > limit_one_text) {
      throw Error(ErrorCode::invalid_input, fmt::format("{}: a text of more than 64 MiB", file.name()));
    }
  }
  if (std::ferror(file.get()) != 0) throw_file_error("read", file.name(), errno);
  return text;
}

void require_files(const std::vector<std::string>& arguments, const Subject& setting) {
  if (std::all_of(arguments.begin(), arguments.end(), reads_file)) return;
  throw Error(ErrorCode::usage,
              format_message("{} is read from lines of @FILE or of standard input, not from texts given", setting));
}

}  // namespace

void check_text_argument(const std::string& text, const Message& where) {
  struct stat status {};

  if (!text.empty() && ::stat(text.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::usage,
                fmt::format("{}: '{}' is a file: write '@{}' for what it holds; where the name itself is the text, "
                            "give it on standard input",
                            where, text, text));
  }
  if (const std::string problem = utf8_problem(text); !problem.empty()) {
    throw Error(ErrorCode::invalid_input, fmt::format("{}: the text '{}' is {}", where, text, problem));
  }
}

std::string plain_text(std::string_view content) {
  if (const std::string problem = file_text_problem(content); !problem.empty()) {
    throw Error(ErrorCode::invalid_input, problem);
  }
  if (content.starts_with(byte_order_mark)) content.remove_prefix(byte_order_mark.size());
  if (content.ends_with('\n')) content.remove_suffix(1);
  if (content.ends_with('\r')) content.remove_suffix(1);
  return std::string(content);
}

std::string one_text_of(const std::string& argument, const Message& where) {
  if (!reads_file(argument)) {
    check_text_argument(argument, where);
    return argument;
  }
  const OpenFile file(argument);
  const std::string content = read_all(file);
  try {
    return plain_text(content);
  } catch (const Error& error) {
    throw error.within(file.name());
  }
}

Texts texts_of(std::vector<std::string> arguments, TextForm form) {
  if (arguments.empty()) {
    if (::isatty(STDIN_FILENO) != 0) {
      throw Error(ErrorCode::usage, "embed: give texts, @FILE, or - for lines of standard input");
    }
    arguments.emplace_back("-");
  }
  if (!form.field.empty()) require_files(arguments, setting_named("field"));
  if (!form.column.empty()) require_files(arguments, setting_named("column"));
  for (const std::string& argument : arguments) {
    if (!reads_file(argument)) check_text_argument(argument, {"embed"});
  }
  const auto texts = std::make_shared<Arguments>(std::move(arguments), std::move(form));
  return {.next = [texts](std::string& text) { return texts->next(text); },
          .share_read = [texts] { return texts->share_read(); },
          .fields = [texts] { return texts->fields(); }};
}

}  // namespace gpux::embedding
