#include "provider/context.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/session_settings.h"
#include "provider/encoder_provider.h"

namespace gpux_cpu::encoder {
namespace {

namespace fs = std::filesystem;

constexpr const char* context_type = "EPContext";
constexpr const char* context_domain = "com.microsoft";
constexpr const char* content_attribute = "ep_cache_context";
constexpr const char* embedded_attribute = "embed_mode";
constexpr const char* main_attribute = "main_context";
constexpr const char* source_attribute = "source";

[[noreturn]] void fail(const std::string& what) {
  throw Ort::Exception(std::string(provider_name) + ": " + what, ORT_EP_FAIL);
}

std::string in_quotes(const fs::path& file) {
  std::string text(1, '\'');
  text.append(file.string()).push_back('\'');
  return text;
}

std::string text_of(const Ort::ConstNode& node, const char* attribute) {
  Ort::ConstOpAttr found;
  std::string text;
  if (!node.GetAttributeByName(attribute, found).IsOK() || !found) return text;
  if (found.GetType() == ORT_OP_ATTR_STRING) Ort::ThrowOnError(found.GetValue(text));
  return text;
}

std::int64_t number_of(const Ort::ConstNode& node, const char* attribute) {
  Ort::ConstOpAttr found;
  std::int64_t number = 0;
  if (!node.GetAttributeByName(attribute, found).IsOK() || !found) return number;
  if (found.GetType() == ORT_OP_ATTR_INT) Ort::ThrowOnError(found.GetValue(number));
  return number;
}

// ONNX Runtime's default name.
fs::path context_model(const ContextOptions& options, const fs::path& model) {
  if (!options.model.empty()) return options.model;
  if (model.empty()) fail("a context next to the model needs ep.context_file_path, or ep.context_embed_mode=1");
  return model.parent_path() / (model.stem().string() + "_ctx.onnx");
}

std::string digits_of(const SharedEncoders::Digest& digest) {
  std::ostringstream digits;
  digits << std::hex << (digest[0] ^ digest[1]);
  return digits.str();
}

// Atomic: the whole file or none.
void write_file(const PackedEncoder& encoder, const fs::path& file) {
  fs::path part = file;
  part += '.';
  part += std::to_string(::getpid());
  std::error_code ignored;
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    write(encoder, out);
    out.close();
    if (!out) {
      fs::remove(part, ignored);
      fail(in_quotes(file) + " cannot be written");
    }
  }
  std::error_code error;
  fs::rename(part, file, error);
  if (!error) return;
  fs::remove(part, ignored);
  fail(in_quotes(file) + " cannot be written: " + error.message());
}

struct Bytes {
  std::span<const std::byte> all;
  std::shared_ptr<const void> keeper;
};

// Every process that has it open has it in memory once.
Bytes map_file(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(in_quotes(file) + " cannot be opened: " + std::strerror(errno));

  struct stat status {};

  const bool has_size = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const data = has_size ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  ::close(descriptor);
  if (data == MAP_FAILED) fail(in_quotes(file) + " cannot be mapped");
  std::shared_ptr<const void> keeper(data, [size](void* mapped) { ::munmap(mapped, size); });
  return {{static_cast<const std::byte*>(data), size}, std::move(keeper)};
}

// A copy that begins where read() wants it.
Bytes copy_of(const std::string& text) {
  constexpr std::align_val_t aligned{64};
  void* const data = ::operator new(text.size(), aligned);
  std::shared_ptr<const void> keeper(data, [](void* copied) { ::operator delete(copied, aligned); });
  std::memcpy(data, text.data(), text.size());
  return {{static_cast<const std::byte*>(data), text.size()}, std::move(keeper)};
}

// Only next to the model: a model may come from an untrusted source.
fs::path file_beside(const fs::path& model, const std::string& name) {
  if (model.empty()) fail("a context in a file of its own needs the model's file");
  if (name.empty() || fs::path(name).filename() != name || name == "..") {
    fail("the context's file is " + in_quotes(name) + ", where only a name is allowed");
  }
  return model.parent_path() / name;
}

}  // namespace

ContextOptions context_options(const OrtSessionOptions* options) {
  ContextOptions found;
  for (const auto& [key, value] : session_entries(options)) {
    if (key == "ep.context_enable") found.enabled = value == "1";
    if (key == "ep.context_embed_mode") found.embedded = value == "1";
    if (key == "ep.context_file_path") found.model = value;
    if (key == "ep.context_node_name_prefix") found.node_prefix = value;
  }
  return found;
}

bool is_context(const Ort::ConstNode& node) {
  return node.GetOperatorType() == context_type && node.GetDomain() == context_domain &&
         text_of(node, source_attribute) == provider_name;
}

Ort::Node make_context(const PackedEncoder& encoder, const ContextOptions& options, const fs::path& model,
                       const std::string& name, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
  std::string content;
  if (options.embedded) {
    std::ostringstream out;
    write(encoder, out);
    content = std::move(out).str();
    // Of what protobuf holds in one file.
    if (content.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) / 2) {
      fail("the context is too large to be embedded; set ep.context_embed_mode=0");
    }
  } else {
    const fs::path beside = context_model(options, model);
    content = beside.stem().string() + "-" + digits_of(encoder.digest) + ".encoder";
    write_file(encoder, beside.parent_path() / content);
  }
  const std::int64_t is_main = 1, is_embedded = options.embedded ? 1 : 0;
  std::vector<Ort::OpAttr> attributes;
  attributes.emplace_back(content_attribute, content.data(), static_cast<int>(content.size()), ORT_OP_ATTR_STRING);
  attributes.emplace_back(embedded_attribute, &is_embedded, 1, ORT_OP_ATTR_INT);
  attributes.emplace_back(main_attribute, &is_main, 1, ORT_OP_ATTR_INT);
  const std::string_view source = provider_name;
  attributes.emplace_back(source_attribute, source.data(), static_cast<int>(source.size()), ORT_OP_ATTR_STRING);
  return {context_type, context_domain, options.node_prefix + name, inputs, outputs, attributes};
}

PackedEncoder open_context(const Ort::ConstNode& node, const fs::path& model) {
  const std::string content = text_of(node, content_attribute);
  const bool embedded = number_of(node, embedded_attribute) != 0;
  const std::string where = embedded ? "the context in the model" : in_quotes(file_beside(model, content));
  try {
    const Bytes bytes = embedded ? copy_of(content) : map_file(file_beside(model, content));
    return read(bytes.all, bytes.keeper);
  } catch (const Ort::Exception&) {
    throw;
  } catch (const std::runtime_error& error) {
    fail(where + " cannot be used: " + error.what());
  }
}

}  // namespace gpux_cpu::encoder
