#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "model/load_settings.h"
#include "model/package_content.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Case {
  const char* provider;  ///< as it stands in runtime.providers
  const char* option;    ///< the one that is refused; empty: none
};

std::vector<Case> cases() {
  return {
      {"{name: tensorrt, options: {trt_engine_cache_path: /etc}}", "trt_engine_cache_path"},
      {"{name: tensorrt, options: {trt_extra_plugin_lib_paths: lib.so}}", "trt_extra_plugin_lib_paths"},
      {"{name: openvino, options: {device_type: CPU, cache_dir: here}}", "cache_dir"},
      {"{name: QNNExecutionProvider, options: {backend_path: libown.so}}", "backend_path"},
      {"{name: vitisai, options: {config_file: a.json}}", "config_file"},
      {"{name: cuda, options: {cache_directory: here}}", "cache_directory"},
      {"{name: mine, options: {out: ../../etc}}", "out"},
      {"{name: mine, options: {out: 'C:\\x'}}", "out"},
      {"{name: mine, options: {level: 2}}", ""},
      {"{name: openvino, options: {device_type: CPU, num_streams: 1}}", ""},
      {"{name: tensorrt, options: {trt_profile_min_shapes: '/in/x:1x3'}}", ""},
      {"cuda", ""},
  };
}

class PortableOptions : public testing::Test {
 protected:
  // The folder of a user, whose gpux.yml may say what it likes.
  LocatedModel written(const std::string& provider) {
    fs::create_directories(folder_.path() / "adder");
    fs::copy_file(GPUX_SOURCE_DIR "/tests/models/add.onnx", folder_.path() / "adder" / "model.onnx",
                  fs::copy_options::skip_existing);
    folder_.write("adder/gpux.yml",
                  "name: adder\nmodel: {source: model.onnx}\nruntime:\n  providers:\n    - " + provider + "\n");
    return locate((folder_.path() / "adder").string(), store_);
  }

  static std::string refusal(const auto& work) {
    try {
      work();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config) << error.message();
      return error.message();
    }
  }

  test::TemporaryFolder folder_, home_;
  Store store_{home_.path()};
};

TEST_F(PortableOptions, NameNoPlaceOfThisMachine) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.provider);
    const LocatedModel own = written(one.provider);
    const std::string expected = one.option[0] == '\0' ? "" : std::string("option '") + one.option + "' does";
    EXPECT_THAT(refusal([&] { require_portable_options(*own.project); }), HasSubstr(expected));
    // A package that somebody else's gpux made: --provider, so that only the options are judged.
    const std::vector<Reference> names{parse_reference("adder:1")};
    (void)store_.add(package_content(own, {}), names);
    const LocatedModel stored = locate("adder:1", store_);
    LoadRequest request;
    request.provider = {"cpu", {.kind = Source::Kind::flag, .name = "--provider", .place = {}}};
    const std::string message = refusal([&] { (void)resolve_load(request, stored); });
    EXPECT_EQ(message.empty(), expected.empty()) << message;
    if (!expected.empty()) {
      EXPECT_THAT(message, HasSubstr("gpux.yml:5:7: a package cannot name a place of this machine"));
      EXPECT_THAT(message, HasSubstr(expected));
    }
    // The user's own file may, from its folder and beside a stored package.
    EXPECT_EQ(refusal([&] { (void)resolve_load(request, own); }), "");
    const LocatedModel with_own = locate("adder:1", store_, own.project->file);
    EXPECT_EQ(refusal([&] { (void)resolve_load(request, with_own); }), "");
  }
}

}  // namespace
}  // namespace gpux
