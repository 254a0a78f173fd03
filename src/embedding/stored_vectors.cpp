#include "embedding/stored_vectors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/bounded_json.h"
#include "base/counted.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "embedding/vector_encoding.h"
#include "gpux/error.h"
#include "gpux/model_info.h"
#include "gpux/tensor.h"
#include "tensor/convert.h"
#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"
#include "tensor/npy.h"

namespace gpux::embedding {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_input, message);
}

// A line of JSON, or a document with the same things within "metadata".
struct Record {
  std::string_view vector;
  std::string model, digest, encoding = "float";
  std::optional<std::string> hash, id, text, image;
  float scale = 1;
};

std::string string_from(const JsonInput& member) {
  try {
    const auto value = parse_bounded_json<nlohmann::ordered_json>(member.raw);
    return value.is_string() ? value.get<std::string>() : value.dump();
  } catch (const nlohmann::ordered_json::exception&) {
    refuse(fmt::format("'{}' is not JSON", member.name));
  } catch (const Error& error) {
    refuse(fmt::format("'{}': {}", member.name, error.message()));
  }
}

Tensor numbers_from(const JsonInput& member, std::size_t rank) {
  ValueType type{.kind = ValueKind::tensor, .element = ElementType::float32, .dimensions = {}, .inner = {}};
  type.dimensions.emplace(rank);
  return *read_json_value(member.raw, type, member.name).tensor();
}

void read_members(std::string_view object, Record& record) {
  for (const JsonInput& member : split_object(object)) {
    if (member.name == "vector") record.vector = member.raw;
    if (member.name == "metadata" && is_object(member.raw)) read_members(member.raw, record);
    if (member.name == "model") record.model = string_from(member);
    if (member.name == "digest") record.digest = string_from(member);
    if (member.name == "hash") record.hash = string_from(member);
    if (member.name == "id") record.id = string_from(member);
    if (member.name == "text") record.text = string_from(member);
    if (member.name == "image") record.image = string_from(member);
    if (member.name == "encoding") record.encoding = string_from(member);
    if (member.name == "scale") record.scale = numbers_from(member, 0).as<float>().front();
  }
}

std::vector<float> vector_of(const Record& record) {
  if (record.vector.empty()) refuse("there is no 'vector'");
  const JsonInput member{"vector", record.vector};
  const auto encoding = vector_encoding_from(record.encoding);
  if (!encoding || *encoding == VectorEncoding::binary) {
    refuse(fmt::format("vectors of encoding '{}' are not searched; accepted: float, int8, base64", record.encoding));
  }
  if (*encoding == VectorEncoding::base64) {
    const auto bytes = from_base64(string_from(member));
    if (!bytes || bytes->size() % sizeof(float) != 0) refuse("'vector' is not base64 of float32");
    std::vector<float> vector(bytes->size() / sizeof(float));
    if (!vector.empty()) std::memcpy(vector.data(), bytes->data(), bytes->size());
    return vector;
  }
  const Tensor numbers = numbers_from(member, 1);
  const std::span<const float> elements = numbers.as<float>();
  std::vector<float> vector(elements.begin(), elements.end());
  if (*encoding == VectorEncoding::int8) {
    for (float& element : vector) element *= record.scale;
  }
  return vector;
}

/// Records, one behind the other.
class Collection {
 public:
  void add(std::string_view json) {
    Record record;
    read_members(json, record);
    const std::vector<float> vector = vector_of(record);
    if (vector.empty()) refuse("'vector' is empty");
    if (vectors_.rows == 0) {
      vectors_.dimension = vector.size();
      vectors_.model = record.model;
      vectors_.digest = record.digest;
    }
    if (vector.size() != vectors_.dimension) {
      refuse(fmt::format("the vector has {}, those before it have {}", counted(vector.size(), "dimension"),
                         vectors_.dimension));
    }
    if (record.digest != vectors_.digest) {
      refuse(fmt::format("the vector is of model '{}' ({}), those before it of '{}' ({})", record.model, record.digest,
                         vectors_.model, vectors_.digest));
    }
    elements_->insert(elements_->end(), vector.begin(), vector.end());
    put(vectors_.hashes, std::move(record.hash));
    put(vectors_.ids, std::move(record.id));
    put(vectors_.texts, std::move(record.text));
    put(vectors_.images, std::move(record.image));
    ++vectors_.rows;
  }

  StoredVectors finish() {
    vectors_.elements = *elements_;
    vectors_.owner = elements_;
    for (auto* list : {&vectors_.hashes, &vectors_.ids, &vectors_.texts, &vectors_.images}) {
      if (!list->empty()) list->resize(vectors_.rows);
    }
    return std::move(vectors_);
  }

 private:
  // A list comes to be with the first that is known.
  void put(std::vector<std::optional<std::string>>& list, std::optional<std::string> text) const {
    if (!text && list.empty()) return;
    list.resize(vectors_.rows);
    list.push_back(std::move(text));
  }

  StoredVectors vectors_;
  std::shared_ptr<std::vector<float>> elements_ = std::make_shared<std::vector<float>>();
};

StoredVectors read_lines(const fs::path& file) {
  const MappedFile content(file);
  std::string_view rest = content.text();
  Collection collection;
  for (std::uint64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      collection.add(line);
    } catch (const Error& error) {
      throw error.within(format_message("{}:{}", file_at(file), number));
    }
  }
  return collection.finish();
}

StoredVectors read_documents(const std::vector<fs::path>& files) {
  Collection collection;
  for (const fs::path& file : files) {
    const std::string content = read_file(file);
    try {
      collection.add(content);
    } catch (const Error& error) {
      throw error.within({file_at(file)});
    }
  }
  return collection.finish();
}

StoredVectors read_document(const fs::path& file) {
  return read_documents({file});
}

StoredVectors read_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (lower(entry->path().extension().string()) == ".vec") files.push_back(entry->path());
  }
  if (error) throw_file_error("read", folder, error.value());
  if (files.empty()) throw Error(ErrorCode::not_found, format_message("'{}' has no .vec files", file_at(folder)));
  std::sort(files.begin(), files.end());
  return read_documents(files);
}

StoredVectors read_array(const fs::path& file) {
  const auto content = std::make_shared<const MappedFile>(file);
  const auto array = std::make_shared<Tensor>();
  try {
    *array = read_npy(content->bytes(), std::nullopt, content);
    const ElementType type = array->type();
    constexpr std::array accepted{ElementType::float32, ElementType::float64, ElementType::float16, ElementType::int8};
    if (std::find(accepted.begin(), accepted.end(), type) == accepted.end()) {
      refuse(fmt::format("vectors of {} are not searched; accepted: float32, float64, float16, int8", to_string(type)));
    }
    if (array->shape().size() != 2) {
      refuse(fmt::format("the array is {}; accepted: [rows, dimension]", to_string(array->shape())));
    }
    *array = convert(*array, ElementType::float32);
  } catch (const Error& error) {
    throw error.within({file_at(file)});
  }
  StoredVectors vectors;
  vectors.rows = static_cast<std::size_t>(array->shape()[0]);
  vectors.dimension = static_cast<std::size_t>(array->shape()[1]);
  vectors.elements = array->as<float>();
  vectors.owner = array;
  return vectors;
}

/// A place that vectors are read from: another kind is another row.
struct Store {
  bool (*is)(const fs::path& place);
  StoredVectors (*read)(const fs::path& place);
};

bool is_folder(const fs::path& place) {
  std::error_code unreadable;
  return fs::is_directory(place, unreadable);
}

bool has_extension(const fs::path& place, std::string_view extension) {
  return lower(place.extension().string()) == extension;
}

constexpr std::array<Store, 4> stores{{
    {is_folder, read_folder},
    {[](const fs::path& place) { return has_extension(place, ".npy"); }, read_array},
    {[](const fs::path& place) { return has_extension(place, ".jsonl"); }, read_lines},
    {[](const fs::path& place) { return has_extension(place, ".vec"); }, read_document},
}};

}  // namespace

StoredVectors read_stored_vectors(const fs::path& place) {
  for (const Store& store : stores) {
    if (store.is(place)) return store.read(place);
  }
  throw Error(
      ErrorCode::usage,
      format_message("vectors are not read from '{}'; accepted: .npy, .jsonl, .vec, or a folder with .vec files",
                     file_at(place)));
}

}  // namespace gpux::embedding
