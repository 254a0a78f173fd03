#include "embedding/vector_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/bounded_json.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/tensor.h"
#include "tensor/json_writer.h"
#include "tensor/npy.h"

namespace gpux::embedding {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Form = VectorTarget::Form;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Form form_of(const std::string& output) {
  if (output.empty()) return Form::lines;
  std::error_code unreadable;
  if (output.ends_with('/') || fs::is_directory(output, unreadable)) return Form::folder;
  const std::string extension = lower(fs::path(output).extension().string());
  if (extension == ".jsonl") return Form::line_file;
  if (extension == ".npy") return Form::array_file;
  if (extension == ".f32") return Form::numbers;
  if (extension == ".vec") return Form::document;
  throw Error(ErrorCode::usage, format_message("{} '{}': accepted: .jsonl, .npy, .f32, .vec, or FOLDER/",
                                               setting_named("output"), output));
}

bool can_be_resumed(Form form) {
  return form == Form::line_file || form == Form::array_file || form == Form::numbers;
}

}  // namespace

VectorTarget vector_target(const std::string& output, const std::string& encoding, bool resume) {
  VectorTarget target{.form = form_of(output), .path = output, .encoding = VectorEncoding::float32, .resume = resume};
  if (const auto known = vector_encoding_from(encoding)) {
    target.encoding = *known;
  } else {
    throw Error(ErrorCode::usage,
                format_message("{} '{}': accepted: float, int8, binary, base64", setting_named("encoding"), encoding));
  }
  if (target.form == Form::numbers && target.encoding != VectorEncoding::float32) {
    throw Error(ErrorCode::usage,
                format_message("{} {} with {} '{}': .f32 is float32; accepted: .jsonl, .vec, FOLDER/{}",
                               setting_named("encoding"), encoding, setting_named("output"), output,
                               target.encoding == VectorEncoding::base64 ? "" : ", .npy"));
  }
  if (target.form == Form::array_file && target.encoding == VectorEncoding::base64) {
    throw Error(ErrorCode::usage,
                format_message("{} base64 with {} '{}': .npy has numbers and no text; accepted: .jsonl, .vec, FOLDER/",
                               setting_named("encoding"), setting_named("output"), output));
  }
  if (resume && !can_be_resumed(target.form)) {
    throw Error(ErrorCode::usage, output.empty()
                                      ? format_message("{} continues a file: give {} FILE.{{jsonl,npy,f32}}",
                                                       setting_named("resume"), setting_named("output"))
                                      : format_message("{} with {} '{}': accepted: .jsonl, .npy, .f32",
                                                       setting_named("resume"), setting_named("output"), output));
  }
  return target;
}

VectorWriter::VectorWriter(VectorTarget target, VectorSource source, LinePrinter print)
    : target_(std::move(target)), source_(std::move(source)), print_(std::move(print)) {
  if (!is_partial()) return;
  FileReplacement& file = file_.emplace(target_.path, FileReplacement::Uncommitted::kept);
  if (target_.resume) keep_complete_vectors(file);
  if (kept_ == 0) begin(file);
}

VectorWriter::~VectorWriter() {
  if (!file_ || vectors_ != 0) return;
  // It has nothing to resume.
  std::error_code unreadable;
  fs::remove(run_file(), unreadable);
  file_->discard();
}

bool VectorWriter::is_partial() const noexcept {
  return can_be_resumed(target_.form);
}

fs::path VectorWriter::run_file() const {
  return target_.path.string() + ".part.json";
}

Json VectorWriter::run() const {
  Json run{{"model", source_.model},
           {"digest", "sha256:" + source_.digest},
           {"dimension", source_.dimension},
           {"encoding", name_of(target_.encoding)}};
  run.update(source_.run);
  return run;
}

std::size_t VectorWriter::bytes_per_vector() const {
  return encoded_size(target_.encoding, source_.dimension) * bits_of(encoded_type(target_.encoding)) / 8;
}

// As long for every number of vectors: NumPy's headers are padded, and two sizes fit into the first padding.
std::string VectorWriter::array_header() const {
  std::string header;
  append_npy_header(header, encoded_type(target_.encoding),
                    {static_cast<std::int64_t>(vectors_),
                     static_cast<std::int64_t>(encoded_size(target_.encoding, source_.dimension))});
  return header;
}

void VectorWriter::begin(FileReplacement& file) const {
  file.cut(0);
  write_file_atomically(run_file(), run().dump(-1, ' ', false, Json::error_handler_t::replace));
  if (target_.form == Form::array_file) file.append(bytes_of(array_header()));
}

void VectorWriter::require_same_run(const FileReplacement& file) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_input,
                format_message("{}: '{}' {}; without {} it is begun anew", setting_named("resume"),
                               file_at(file.part()), what, setting_named("resume")));
  };
  Json before;
  try {
    before = parse_bounded_json<Json>(read_file(run_file()));
  } catch (const std::exception&) {
    refuse(fmt::format("cannot be continued: '{}', which says how it was begun, cannot be read", run_file().string()));
  }
  // What could not be written as JSON is compared as it was written.
  const Json now = Json::parse(run().dump(-1, ' ', false, Json::error_handler_t::replace));
  for (const auto& [name, value] : now.items()) {
    if (!before.is_object() || !before.contains(name)) refuse(fmt::format("was begun without '{}'", name));
    if (before[name] != value) {
      refuse(fmt::format("was begun with {} {}, now it is {}", name, before[name].dump(), value.dump()));
    }
  }
}

void VectorWriter::keep_complete_vectors(FileReplacement& file) {
  const std::uint64_t header = target_.form == Form::array_file ? array_header().size() : 0;
  if (file.size() <= header) return;
  std::uint64_t whole = 0;
  if (target_.form == Form::line_file) {
    const MappedFile written(file.part());
    const std::string_view text = written.text();
    whole = text.find_last_of('\n') + 1;
    kept_ =
        static_cast<std::uint64_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(whole), '\n'));
  } else {
    kept_ = (file.size() - header) / bytes_per_vector();
    whole = header + kept_ * bytes_per_vector();
  }
  if (kept_ == 0) return;
  vectors_ = kept_;
  require_same_run(file);
  file.cut(whole);
}

void VectorWriter::append_fields(std::string& out, const EncodedVector& encoded) const {
  out += R"("model": )";
  append_json_string(out, source_.model);
  out += fmt::format(R"(, "digest": "sha256:{}", "dimension": {}, "level": {})", source_.digest, source_.dimension,
                     source_.level.empty() ? "null" : '"' + source_.level + '"');
  if (target_.encoding != VectorEncoding::float32) {
    out += fmt::format(R"(, "encoding": "{}")", name_of(target_.encoding));
  }
  if (target_.encoding == VectorEncoding::int8) out += fmt::format(R"(, "scale": {})", encoded.scale);
}

void VectorWriter::append_vector(std::string& out, const EncodedVector& encoded) const {
  if (target_.encoding == VectorEncoding::base64) {
    out += '"' + to_base64(encoded.bytes) + '"';
    return;
  }
  const auto size = static_cast<std::int64_t>(encoded_size(target_.encoding, source_.dimension));
  append_json(out, Tensor::borrow(encoded_type(target_.encoding), {size}, encoded.bytes));
}

void VectorWriter::add_document(std::string_view text, const EncodedVector& encoded) {
  const std::string hash = sha256_of(text);
  std::string document = fmt::format(R"({{"hash": "{}", "vector": )", hash);
  append_vector(document, encoded);
  document += R"(, "metadata": {)";
  append_fields(document, encoded);
  document += R"(, "text": )";
  append_json_string(document, text);
  document += "}}\n";
  if (target_.form == Form::folder) return write_file_atomically(target_.path / (hash + ".vec"), document);
  document_ = std::move(document);
}

void VectorWriter::add(std::string_view text, std::span<const float> vector) {
  if (target_.form == Form::document && vectors_ == 1) {
    throw Error(
        ErrorCode::usage,
        format_message(
            "{} '{}' holds one vector, and there are more texts; accepted for them: FOLDER/, .jsonl, .npy, .f32",
            setting_named("output"), file_at(target_.path)));
  }
  EncodedVector encoded;
  try {
    encoded = encode(target_.encoding, vector);
  } catch (const Error& error) {
    throw error.within(fmt::format("text {}", vectors_ + 1));
  }
  ++vectors_;
  if (target_.form == Form::document || target_.form == Form::folder) return add_document(text, encoded);
  if (target_.form == Form::array_file || target_.form == Form::numbers) return file_->append(encoded.bytes);
  std::string line = "{";
  append_fields(line, encoded);
  if (source_.are_images) {
    line += R"(, "image": )";
    append_json_string(line, text);
  }
  line += R"(, "vector": )";
  append_vector(line, encoded);
  line += '}';
  if (!file_) return print_(line);
  line += '\n';
  file_->append(bytes_of(line));
}

void VectorWriter::finish() {
  if (target_.form == Form::document) {
    if (vectors_ == 1) return write_file_atomically(target_.path, document_);
    throw Error(ErrorCode::invalid_input,
                format_message("{} '{}': there is no text", setting_named("output"), file_at(target_.path)));
  }
  if (!file_) return;
  if (target_.form == Form::array_file) file_->overwrite_beginning(bytes_of(array_header()));
  file_->commit();
  file_.reset();
  std::error_code unreadable;
  fs::remove(run_file(), unreadable);
}

}  // namespace gpux::embedding
