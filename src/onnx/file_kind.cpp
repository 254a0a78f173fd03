#include "onnx/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace gpux::onnx {
namespace {

struct Mark {
  std::size_t offset;
  std::string_view bytes;
  std::string_view kind;
};

using namespace std::string_view_literals;

constexpr std::array marks{
    Mark{4, "ORTM"sv, "a model in ORT format, which is not read; use the .onnx file that it was made from"sv},
    Mark{4, "TFL3"sv, "a TensorFlow Lite model; convert it with tf2onnx"sv},
    Mark{0, "version https://git-lfs"sv, "a Git LFS pointer; fetch the model itself with 'git lfs pull'"sv},
    Mark{0, "PK\x03\x04"sv, "a zip archive, such as PyTorch's .pt files are; export it to ONNX"sv},
    Mark{0, "\x1f\x8b"sv, "a gzip archive; unpack it first"sv},
    Mark{0, "\x28\xb5\x2f\xfd"sv, "a zstd archive; unpack it first"sv},
    Mark{0,
         "\xfd"
         "7zXZ"sv,
         "an xz archive; unpack it first"sv},
    Mark{257, "ustar"sv, "a tar archive; unpack it first"sv},
    Mark{0, "\x89HDF\r\n"sv, "an HDF5 file, such as Keras writes; convert it with tf2onnx"sv},
    Mark{0, "GGUF"sv, "a GGUF model, which ONNX Runtime cannot read"sv},
    Mark{0, "\x80\x02"sv, "a Python pickle, such as PyTorch writes; export it to ONNX"sv},
    Mark{0, "\x80\x04"sv, "a Python pickle; export the model in it to ONNX"sv},
    Mark{8, "{\""sv, "a safetensors file, which holds weights but no model; export the model to ONNX"sv},
    Mark{0,
         "\x7f"
         "ELF"sv,
         "a program or library"sv},
    Mark{0, "\x89PNG"sv, "an image"sv},
    Mark{0, "\xff\xd8\xff"sv, "an image"sv},
    Mark{0, "\x93NUMPY"sv, "a NumPy array"sv},
    Mark{0, "%PDF"sv, "a PDF document"sv},
};

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 || byte == '\n' || byte == '\r' || byte == '\t';
  });
}

}  // namespace

std::string_view looks_like(std::string_view content) noexcept {
  for (const Mark& mark : marks) {
    if (content.size() > mark.offset && content.substr(mark.offset).starts_with(mark.bytes)) return mark.kind;
  }
  std::string_view head = content.substr(0, 512);
  if (head.size() < 4 || !is_text(head)) return {};
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  if (starts_with_ignoring_case(head, "<!doctype html") || starts_with_ignoring_case(head, "<html")) {
    return "an HTML page, perhaps a failed download";
  }
  if (head.starts_with('{') || head.starts_with('[')) return "JSON text";
  return "plain text";
}

}  // namespace gpux::onnx
