#include "server/protocols/ollama/store_requests.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/utf8_prefix.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/operation.h"

namespace gpux::server {
namespace {

using namespace openapi;
using enum FieldKind;
using enum FieldUse;

constexpr Field model_field{"model", text}, name_field{"name", text}, stream_field{"stream", flag};

constexpr std::array<Field, 6> transfer_table{{
    model_field,
    name_field,
    stream_field,
    refused_field("insecure", "the operator decides which hosts are reached without checks; accepted: false", "false"),
    refused_field("username", "the credentials are the operator's: gpux login stores them"),
    refused_field("password", "the credentials are the operator's: gpux login stores them"),
}};

constexpr std::array<Field, 2> copy_table{{{"source", text, required}, {"destination", text, required}}};

constexpr std::array<Field, 2> delete_table{{model_field, name_field}};

Json files_schema(const ServedList&) {
  return or_null(
      {{"type", "object"}, {"additionalProperties", {{"type", "string"}, {"pattern", "^sha256[:-][0-9a-f]{64}$"}}}});
}

Json parameters_schema(const ServedList&) {
  return or_null({{"type", "object"}});
}

constexpr std::array<Field, 14> create_table{{
    model_field,
    name_field,
    stream_field,
    {"from", text},
    {"files", other, optional, files_schema},
    {"parameters", other, optional, parameters_schema},
    refused_field("adapters", "gpux runs no adapters; merge them into the weights before"),
    refused_field("template", "the model's own is used, chat_template.jinja among its files"),
    refused_field("system", "a package has no place for it: requests give it"),
    refused_field("messages", "a package has no place for them: requests give them"),
    refused_field("license", "a package keeps what its files say"),
    refused_field("quantize", "gpux import --quantize stores a model with quantized weights"),
    refused_field("modelfile", "from, files and parameters say the same"),
    refused_field("path", "files of the server are not read; POST /api/blobs/sha256:DIGEST sends files"),
}};

/// A setting of Ollama's, by the name that generation_config.json has for it.
struct Parameter {
  std::string_view name;
  const char* key;
  double low, high;
  bool excludes_low = false, is_whole = false;
};

constexpr std::array<Parameter, 6> parameters{{
    {"temperature", "temperature", 0, 100},
    {"top_k", "top_k", 0, INT32_MAX, false, true},
    {"top_p", "top_p", 0, 1, true},
    {"min_p", "min_p", 0, 1},
    {"typical_p", "typical_p", 0, 1, true},
    {"repeat_penalty", "repetition_penalty", 0, 100, true},
}};

// What a package keeps of a model's settings for texts; the others are those of requests.
std::vector<std::pair<std::string, double>> read_parameters(const RequestJson& value) {
  if (!value.is_object()) refuse_member("parameters", "is no object");
  std::vector<std::pair<std::string, double>> read;
  for (const auto& [name, given] : value.items()) {
    const std::string place = fmt::format("parameters.{}", utf8_prefix(name, 60));
    const auto found = std::ranges::find(parameters, std::string_view(name), &Parameter::name);
    if (found == parameters.end()) {
      refuse_member(place,
                    ": a package has no place for it: requests give it; accepted: temperature, top_k, top_p, min_p, "
                    "typical_p, repeat_penalty");
    }
    if (!given.is_number()) refuse_member(place, "is no number");
    const auto number = given.get<double>();
    const bool is_in = (found->excludes_low ? number > found->low : number >= found->low) && number <= found->high &&
                       (!found->is_whole || number == std::floor(number));
    if (!is_in) {
      refuse_member(place, fmt::format("is {}; accepted: {}{}{} to {}", number, found->is_whole ? "whole numbers " : "",
                                       found->excludes_low ? "above " : "", found->low, found->high));
    }
    read.emplace_back(found->key, number);
  }
  return read;
}

std::map<std::string, std::string> read_files(const RequestJson& value) {
  if (!value.is_object()) refuse_member("files", "is no object of names and digests");
  constexpr std::size_t max_files = 256;
  if (value.size() > max_files) {
    refuse_member("files", fmt::format("has {} files; accepted: at most {}", value.size(), max_files));
  }
  std::map<std::string, std::string> files;
  for (const auto& [name, digest] : value.items()) {
    const std::string place = fmt::format("files.{}", utf8_prefix(name, 60));
    if (!digest.is_string()) refuse_member(place, "is no text");
    files.emplace(name, read_ollama_digest(digest.get<std::string>(), place));
  }
  return files;
}

// Older clients call it "name".
std::string model_of(Members& members) {
  std::string model = members.text("model");
  const std::string name = members.text("name");
  if (model.empty()) model = name;
  if (model.empty()) refuse_member("model", "is missing", MemberProblem::missing);
  return model;
}

}  // namespace

std::string read_ollama_digest(const std::string& text, std::string_view place) {
  // Ollama's own program writes "sha256-…" in names of files.
  const std::size_t length = std::string_view("sha256:").size();
  const bool is_named = text.starts_with("sha256:") || text.starts_with("sha256-");
  if (!is_named || !is_sha256(text.substr(length))) {
    refuse_member(std::string(place), "is no digest; accepted: sha256: and 64 hexadecimal digits in lower case");
  }
  return text.substr(length);
}

std::span<const Field> ollama::transfer_fields() {
  return transfer_table;
}

OllamaTransfer read_ollama_transfer(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  Members members(json, "", transfer_table, reading.rules);
  OllamaTransfer read{.model = model_of(members), .is_streamed = members.flag("stream", true)};
  members.finish();
  return read;
}

std::span<const Field> ollama::copy_fields() {
  return copy_table;
}

OllamaCopy read_ollama_copy(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  Members members(json, "", copy_table, reading.rules);
  OllamaCopy read{.source = members.text("source"), .destination = members.text("destination")};
  members.finish();
  return read;
}

std::span<const Field> ollama::delete_fields() {
  return delete_table;
}

std::string read_ollama_delete(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  Members members(json, "", delete_table, reading.rules);
  std::string model = model_of(members);
  members.finish();
  return model;
}

std::span<const Field> ollama::create_fields() {
  return create_table;
}

OllamaCreation read_ollama_create(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::conversation);
  Members members(json, "", create_table, reading.rules);
  OllamaCreation read;
  read.creation.name = model_of(members);
  read.is_streamed = members.flag("stream", true);
  read.creation.from = members.text("from");
  if (const RequestJson* files = members.find("files")) read.creation.files = read_files(*files);
  if (const RequestJson* settings = members.find("parameters")) read.creation.settings = read_parameters(*settings);
  members.finish();
  const bool has_files = !read.creation.files.empty();
  if (has_files != read.creation.from.empty()) {
    refuse_member("from", has_files ? "and files are both there; accepted: one of them"
                                    : "is missing, and files, too; accepted: one of them");
  }
  if (has_files && !read.creation.settings.empty()) {
    refuse_member("parameters", "are for a model that is stored (from); files have a generation_config.json");
  }
  return read;
}

}  // namespace gpux::server
