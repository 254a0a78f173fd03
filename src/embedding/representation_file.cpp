#include "embedding/representation_file.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "base/start_thread.h"
#include "embedding/max_sim.h"
#include "embedding/sparse_vector.h"
#include "gpux/error.h"
#include "gpux/model_info.h"
#include "gpux/tensor.h"
#include "tensor/convert.h"
#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"
#include "tensor/json_writer.h"
#include "tensor/npz.h"

namespace gpux::embedding {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_input, message);
}

bool has_extension(const fs::path& file, std::string_view extension) {
  return lower(file.extension().string()) == extension;
}

bool is_archive_name(const std::string& output) {
  if (output.empty() || has_extension(output, ".jsonl")) return false;
  if (has_extension(output, ".npz")) return true;
  throw Error(ErrorCode::usage, format_message("{} '{}': accepted for sparse and multi-vector embeddings: .jsonl, .npz",
                                               setting_named("output"), output));
}

template <typename Element>
Tensor array_of(const std::vector<Element>& elements) {
  return Tensor::of<Element>({static_cast<std::int64_t>(elements.size())}, elements);
}

Tensor text_of(const std::string& text) {
  return Tensor::of_strings({}, {text});
}

// Arrays of an archive by name.
class Archive {
 public:
  explicit Archive(const fs::path& file) : file_(file), content_(std::make_shared<const MappedFile>(file)) {
    arrays_ = read_npz(content_->bytes(), {.declared = nullptr, .owner = content_});
  }

  [[nodiscard]] const Tensor* find(std::string_view name) const {
    const auto found = std::ranges::find(arrays_, name, &NamedTensor::first);
    return found == arrays_.end() ? nullptr : &found->second;
  }

  [[nodiscard]] Tensor get(std::string_view name, ElementType type, std::size_t rank) const {
    const Tensor* found = find(name);
    if (found == nullptr) refuse(fmt::format("there is no array '{}'", name));
    if (found->shape().size() != rank) {
      refuse(fmt::format("array '{}' is {}; accepted: rank {}", name, to_string(found->shape()), rank));
    }
    return convert(*found, type);
  }

  [[nodiscard]] std::string text(std::string_view name) const {
    const Tensor* found = find(name);
    return found != nullptr && found->type() == ElementType::string && found->strings().size() == 1
               ? found->strings().front()
               : std::string();
  }

 private:
  fs::path file_;
  std::shared_ptr<const MappedFile> content_;
  std::vector<NamedTensor> arrays_;
};

std::optional<Representation> representation_in(const Archive& archive) {
  if (archive.find("indptr") != nullptr && archive.find("indices") != nullptr) return Representation::sparse;
  if (archive.find("embeddings") != nullptr && archive.find("offsets") != nullptr) return Representation::multi_vector;
  return std::nullopt;
}

// From 0 to `end`, and never back.
void check_offsets(std::span<const std::int64_t> offsets, std::size_t end, std::string_view name) {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != static_cast<std::int64_t>(end) ||
      !std::ranges::is_sorted(offsets)) {
    refuse(fmt::format("array '{}' does not rise from 0 to {}", name, end));
  }
}

void check_finite(std::span<const float> values) {
  if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); })) refuse("a value is NaN or infinite");
}

// A row of a CSR matrix; others write its entries in any order.
Embedding sparse_row(std::span<const std::int64_t> indices, std::span<const float> values, std::int64_t dimension) {
  std::vector<std::size_t> order(indices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return indices[i]; });
  Embedding row;
  for (const std::size_t i : order) {
    if (indices[i] < 0 || indices[i] >= dimension) {
      refuse(fmt::format("index {}; accepted: 0 to {}", indices[i], dimension - 1));
    }
    const auto index = static_cast<std::uint32_t>(indices[i]);
    if (!row.indices.empty() && row.indices.back() == index) refuse(fmt::format("index {} occurs twice", index));
    row.indices.push_back(index);
    row.values.push_back(values[i]);
  }
  return row;
}

constexpr std::int64_t max_vocabulary = std::int64_t{1} << 31;

StoredEmbeddings read_archive(const fs::path& file) {
  const Archive archive(file);
  const auto representation = representation_in(archive);
  if (!representation) {
    refuse("accepted: the arrays data, indices, indptr and shape of a CSR matrix, or embeddings and offsets");
  }
  StoredEmbeddings stored{.representation = *representation,
                          .embeddings = {},
                          .dimension = 0,
                          .model = archive.text("model"),
                          .digest = archive.text("digest")};
  if (*representation == Representation::sparse) {
    const std::string format = archive.text("format");
    if (!format.empty() && format != "csr")
      refuse(fmt::format("the matrix is in the format '{}'; accepted: csr", format));
    const Tensor data = archive.get("data", ElementType::float32, 1);
    const Tensor indices = archive.get("indices", ElementType::int64, 1);
    const Tensor offsets = archive.get("indptr", ElementType::int64, 1);
    const Tensor shape = archive.get("shape", ElementType::int64, 1);
    const auto starts = offsets.as<std::int64_t>();
    const auto sizes = shape.as<std::int64_t>();
    const auto values = data.as<float>();
    if (indices.shape() != data.shape()) refuse("arrays 'data' and 'indices' are of different lengths");
    check_offsets(starts, values.size(), "indptr");
    if (sizes.size() != 2 || sizes[0] + 1 != static_cast<std::int64_t>(starts.size()) || sizes[1] < 1 ||
        sizes[1] > max_vocabulary) {
      refuse("array 'shape' is not [rows, vocabulary] of the other arrays");
    }
    check_finite(values);
    stored.dimension = static_cast<std::size_t>(sizes[1]);
    for (std::size_t row = 0; row + 1 < starts.size(); ++row) {
      const auto begin = static_cast<std::size_t>(starts[row]);
      const auto count = static_cast<std::size_t>(starts[row + 1]) - begin;
      stored.embeddings.push_back(
          sparse_row(indices.as<std::int64_t>().subspan(begin, count), values.subspan(begin, count), sizes[1]));
    }
    return stored;
  }
  const Tensor vectors = archive.get("embeddings", ElementType::float32, 2);
  const Tensor offsets = archive.get("offsets", ElementType::int64, 1);
  const auto starts = offsets.as<std::int64_t>();
  const auto values = vectors.as<float>();
  check_offsets(starts, static_cast<std::size_t>(vectors.shape().front()), "offsets");
  check_finite(values);
  stored.dimension = static_cast<std::size_t>(vectors.shape().back());
  for (std::size_t row = 0; row + 1 < starts.size(); ++row) {
    const auto begin = static_cast<std::size_t>(starts[row]);
    const auto count = static_cast<std::size_t>(starts[row + 1]) - begin;
    const auto own = values.subspan(begin * stored.dimension, count * stored.dimension);
    stored.embeddings.push_back({.values = {own.begin(), own.end()}, .indices = {}, .rows = count});
  }
  return stored;
}

Tensor numbers_in(const JsonInput& member, ElementType element, std::size_t rank) {
  ValueType type{.kind = ValueKind::tensor, .element = element, .dimensions = {}, .inner = {}};
  type.dimensions.emplace(rank);
  return *read_json_value(member.raw, type, member.name).tensor();
}

std::string text_in(const JsonInput& member) {
  ValueType type{.kind = ValueKind::tensor, .element = ElementType::string, .dimensions = {}, .inner = {}};
  type.dimensions.emplace(std::size_t{0});
  return read_json_value(member.raw, type, member.name).tensor()->strings().front();
}

void read_line(std::string_view line, StoredEmbeddings& stored) {
  std::optional<Tensor> indices, values, vectors;
  std::string model, digest;
  std::size_t dimension = 0;
  for (const JsonInput& member : split_object(line)) {
    if (member.name == "indices") indices = numbers_in(member, ElementType::int64, 1);
    if (member.name == "values") values = numbers_in(member, ElementType::float32, 1);
    if (member.name == "vectors") vectors = numbers_in(member, ElementType::float32, 2);
    if (member.name == "model") model = text_in(member);
    if (member.name == "digest") digest = text_in(member);
    if (member.name == "dimension") {
      dimension = static_cast<std::size_t>(
          std::max<std::int64_t>(numbers_in(member, ElementType::int64, 0).as<std::int64_t>().front(), 0));
    }
  }
  if (stored.embeddings.empty()) {
    stored.model = model;
    stored.digest = digest;
    stored.dimension = dimension;
  } else if (digest != stored.digest || dimension != stored.dimension) {
    refuse(fmt::format("it is of model '{}' ({}) with {}, those before it of '{}' ({}) with {}", model, digest,
                       counted(dimension, "dimension"), stored.model, stored.digest, stored.dimension));
  }
  if (stored.representation == Representation::sparse) {
    if (!indices || !values || indices->shape() != values->shape()) {
      refuse("'indices' and 'values' are not two lists of one length");
    }
    check_finite(values->as<float>());
    stored.embeddings.push_back(sparse_row(indices->as<std::int64_t>(), values->as<float>(),
                                           dimension == 0 ? max_vocabulary : static_cast<std::int64_t>(dimension)));
    return;
  }
  if (!vectors) refuse("there is no list 'vectors'");
  const auto elements = vectors->as<float>();
  check_finite(elements);
  const auto rows = static_cast<std::size_t>(vectors->shape().front());
  const auto width = static_cast<std::size_t>(vectors->shape().back());
  if (stored.dimension == 0) stored.dimension = width;
  if (rows != 0 && width != stored.dimension) {
    refuse(fmt::format("its vectors have {}, those before it {}", counted(width, "dimension"), stored.dimension));
  }
  stored.embeddings.push_back({.values = {elements.begin(), elements.end()}, .indices = {}, .rows = rows});
}

// Calls `use` with each line that is not blank, until it returns false.
void for_each_line(const fs::path& file, const std::function<bool(std::string_view)>& use) {
  const MappedFile content(file);
  std::string_view rest = content.text();
  for (std::uint64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      if (!use(line)) return;
    } catch (const Error& error) {
      throw error.within(format_message("{}:{}", file_at(file), number));
    }
  }
}

}  // namespace

RepresentationWriter::RepresentationWriter(Options options, VectorSource source, LinePrinter print)
    : options_(std::move(options)),
      source_(std::move(source)),
      print_(std::move(print)),
      is_archive_(is_archive_name(options_.output)) {
  if (!options_.output.empty()) file_.emplace(options_.output);
}

std::string RepresentationWriter::line_of(const Embedding& embedding) const {
  std::string line = R"({"model": )";
  append_json_string(line, source_.model);
  line += fmt::format(R"(, "digest": "sha256:{}", "dimension": {})", source_.digest, source_.dimension);
  if (options_.representation == Representation::multi_vector) {
    line += R"(, "vectors": )";
    const auto rows = static_cast<std::int64_t>(embedding.rows);
    append_json(line, Tensor::of<float>({rows, static_cast<std::int64_t>(source_.dimension)}, embedding.values));
    return line + '}';
  }
  line += R"(, "indices": )";
  append_json(line, array_of(std::vector<std::int64_t>(embedding.indices.begin(), embedding.indices.end())));
  line += R"(, "values": )";
  append_json(line, array_of(embedding.values));
  if (options_.token_names) {
    line += R"(, "tokens": [)";
    for (std::size_t i = 0; i < embedding.indices.size(); ++i) {
      if (i != 0) line += ", ";
      append_json_string(line, options_.token_names(embedding.indices[i]));
    }
    line += ']';
  }
  return line + '}';
}

void RepresentationWriter::add(const Embedding& embedding) {
  if (!is_archive_) {
    std::string line = line_of(embedding);
    if (!file_) return print_(line);
    line += '\n';
    file_->append(std::as_bytes(std::span(line)));
    return;
  }
  values_.insert(values_.end(), embedding.values.begin(), embedding.values.end());
  for (const std::uint32_t index : embedding.indices) indices_.push_back(static_cast<std::int32_t>(index));
  offsets_.push_back(options_.representation == Representation::sparse
                         ? static_cast<std::int64_t>(values_.size())
                         : offsets_.back() + static_cast<std::int64_t>(embedding.rows));
}

void RepresentationWriter::finish() {
  if (!file_) return;
  if (is_archive_) {
    std::vector<NamedTensor> arrays;
    if (options_.representation == Representation::sparse) {
      const std::vector<std::int64_t> shape{static_cast<std::int64_t>(offsets_.size()) - 1,
                                            static_cast<std::int64_t>(source_.dimension)};
      arrays = {{"data", array_of(values_)},
                {"indices", array_of(indices_)},
                {"indptr", array_of(offsets_)},
                {"shape", array_of(shape)},
                {"format", text_of("csr")}};
    } else {
      const Shape shape{offsets_.back(), static_cast<std::int64_t>(source_.dimension)};
      arrays = {{"embeddings", Tensor::of<float>(shape, values_)}, {"offsets", array_of(offsets_)}};
    }
    arrays.emplace_back("model", text_of(source_.model));
    arrays.emplace_back("digest", text_of("sha256:" + source_.digest));
    const std::string archive = write_npz(arrays);
    file_->append(std::as_bytes(std::span(archive)));
  }
  file_->commit();
  file_.reset();
}

std::optional<Representation> stored_representation(const fs::path& file) {
  if (has_extension(file, ".npz")) {
    try {
      return representation_in(Archive(file));
    } catch (const Error& error) {
      throw error.within({file_at(file)});
    }
  }
  std::optional<Representation> found;
  if (!has_extension(file, ".jsonl")) return found;
  for_each_line(file, [&](std::string_view line) {
    for (const JsonInput& member : split_object(line)) {
      if (member.name == "indices") found = Representation::sparse;
      if (member.name == "vectors") found = Representation::multi_vector;
    }
    return false;
  });
  return found;
}

StoredEmbeddings read_stored_embeddings(const fs::path& file) {
  if (has_extension(file, ".npz")) {
    try {
      return read_archive(file);
    } catch (const Error& error) {
      throw error.within({file_at(file)});
    }
  }
  const auto representation = stored_representation(file);
  if (!representation) {
    refuse(fmt::format("{}: accepted: lines with 'indices' and 'values', or with 'vectors'", file.string()));
  }
  StoredEmbeddings stored;
  stored.representation = *representation;
  for_each_line(file, [&](std::string_view line) {
    read_line(line, stored);
    return true;
  });
  return stored;
}

std::vector<Match> best_matches(const std::vector<Embedding>& embeddings, const Embedding& query,
                                Representation representation, bool is_mean, std::size_t k, unsigned threads) {
  std::vector<Match> matches(embeddings.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = 0; (i = next.fetch_add(1)) < embeddings.size();) {
        matches[i] = {i, representation == Representation::sparse ? sparse_product(query, embeddings[i])
                                                                  : max_sim(query, embeddings[i], is_mean)};
      }
    } catch (...) {
      const std::scoped_lock lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    const std::vector<std::jthread> others = start_more_threads(std::max(threads, 1U) - 1, work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  std::erase_if(matches, [](const Match& match) { return !std::isfinite(match.score); });
  const std::size_t count = std::min(k, matches.size());
  std::partial_sort(matches.begin(), matches.begin() + static_cast<std::ptrdiff_t>(count), matches.end(),
                    [](const Match& left, const Match& right) {
                      return left.score != right.score ? left.score > right.score : left.index < right.index;
                    });
  matches.resize(count);
  return matches;
}

}  // namespace gpux::embedding
