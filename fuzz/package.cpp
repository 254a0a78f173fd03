// What the store reads of a package: its OCI manifest. What is written of it reads back the same.
#include <string>

#include "fuzzer.h"
#include "store/package_manifest.h"

namespace gpux::fuzz {
namespace {

bool same(const PackageManifest& left, const PackageManifest& right) {
  const auto equal = [](const StoredFile& a, const StoredFile& b) { return a.name == b.name && a.blob == b.blob; };
  return left.name == right.name && left.version == right.version && left.description == right.description &&
         left.model_file == right.model_file && left.provider == right.provider && left.metadata == right.metadata &&
         std::equal(left.files.begin(), left.files.end(), right.files.begin(), right.files.end(), equal) &&
         left.variants == right.variants && left.origin == right.origin;
}

}  // namespace

void read_hostile(std::string_view input) {
  static_cast<void>(references_of(input, "the manifest"));
  const PackageManifest package = decode_manifest(input, "the manifest");
  for (const StoredFile& file : package.files) {
    require(is_inside_package(file.name), "a file outside the package");
    require(is_digest(file.blob.digest), "a digest that is none");
  }
  require(package.find(package.model_file) != nullptr, "a model that is not in the package");
  const std::string text = encode_manifest(package, {std::string(64, '0'), 0});
  require(same(package, must_succeed("reading what was written", [&] { return decode_manifest(text, "it"); })),
          "the manifest written reads back as another package");
}

}  // namespace gpux::fuzz
