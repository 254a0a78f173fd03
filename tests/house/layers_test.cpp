// The order of the modules: what a folder under src/ may include, and where ONNX Runtime, the HTTP library, gRPC and
// the decoders of images may be named.
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"

namespace {

namespace fs = std::filesystem;

const fs::path source_folder = fs::path(GPUX_SOURCE_DIR) / "src";

// Each module with the ones right below it; what they lie on is below it too.
const std::map<std::string, std::vector<std::string>> right_below{
    {"base", {}},
    {"text", {"base"}},
    {"tensor", {"base"}},
    {"image", {"tensor"}},
    {"onnx", {"tensor"}},
    {"ort", {"tensor"}},
    {"provider", {"ort"}},
    {"model", {"onnx", "image"}},
    {"runtime", {"provider", "model"}},
    {"embedding", {"runtime", "text"}},
    {"pipeline", {"embedding"}},
    {"server", {"pipeline"}},
    {"daemon", {"embedding"}},
    {"cli", {"server", "daemon"}},
};

void collect(const std::string& module, std::set<std::string>& below) {
  if (!below.insert(module).second) return;
  for (const std::string& lower : right_below.at(module)) collect(lower, below);
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp") files.push_back(entry.path());
  }
  return files;
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.push_back((*match)[1]);
  }
  return found;
}

// Without std::regex, which takes seconds for as much text.
void expect_named_only_in(const std::vector<std::string>& folders, const std::vector<std::string>& words) {
  bool is_named = false;
  for (const fs::path& file : files_of(source_folder)) {
    const std::string text = gpux::read_file(file), place = file.lexically_relative(source_folder);
    const bool may = std::ranges::any_of(folders, [&](const auto& folder) { return place.starts_with(folder); });
    for (const std::string& word : words) {
      if (text.find(word) == std::string::npos) continue;
      is_named = true;
      EXPECT_TRUE(may) << file << " names " << word;
    }
  }
  EXPECT_TRUE(is_named);
}

TEST(Layers, EveryFolderIsAKnownModule) {
  for (const auto& entry : fs::directory_iterator(source_folder)) {
    EXPECT_TRUE(right_below.contains(entry.path().filename())) << entry.path() << " is not in the order of the modules";
  }
}

TEST(Layers, ModulesIncludeOnlyWhatLiesBelow) {
  const std::regex include(R"re(#include "([a-z]+)/)re");
  for (const auto& [module, lower] : right_below) {
    std::set<std::string> allowed{"gpux"};
    collect(module, allowed);
    const std::vector<fs::path> files = files_of(source_folder / module);
    EXPECT_FALSE(files.empty()) << module;
    for (const fs::path& file : files) {
      for (const std::string& used : matches(gpux::read_file(file), include)) {
        EXPECT_TRUE(allowed.contains(used)) << file << " includes " << used << ", which does not lie below " << module;
      }
    }
  }
}

TEST(Layers, OnlyTheTwoModulesForItNameOnnxRuntimesHeaders) {
  std::vector<std::string> words{"#include <onnxruntime", "#include \"onnxruntime", "onnxruntime_c_api.h",
                                 "onnxruntime_cxx_api.h", "Ort::"};
  for (char letter = 'A'; letter <= 'Z'; ++letter) words.push_back(std::string("Ort") + letter);
  expect_named_only_in({"ort/", "provider/"}, words);
}

TEST(Layers, OnlyTheHttpFolderNamesTheHttpLibrary) {
  expect_named_only_in({"server/http/"}, {"boost", "Boost::", "asio::"});
}

TEST(Layers, OnlyTheGrpcFolderNamesGrpcAndProtobuf) {
  expect_named_only_in({"server/grpc/"}, {"grpc::", "<grpc", "google::protobuf", "<google/", ".pb.h\"", "inference::"});
}

TEST(Layers, OnlyTheImageFolderNamesTheDecodersOfImages) {
  expect_named_only_in({"image/"}, {"<jpeglib", "<jerror", "<turbojpeg", "<png", "<webp/"});
}

// A message that cannot be written must change nothing (base/standard_streams.h); most ways to write one throw.
TEST(Layers, MessagesAreWrittenInOnePlace) {
  for (const fs::path& file : files_of(source_folder)) {
    const std::string text = gpux::read_file(file);
    for (const char* word : {"fmt::print(", "std::cerr", "std::clog", "std::cout", "(stderr", ", stderr", "perror("}) {
      EXPECT_EQ(text.find(word), std::string::npos) << file << " names " << word;
    }
  }
}

TEST(Layers, WhatOthersIncludeOfTheGrpcFolderShowsNoTypeOfItsLibrary) {
  const fs::path folder = source_folder / "server" / "grpc";
  const std::string text = gpux::read_file(folder / "server.h");
  for (const char* word : {"grpc::", "grpcpp", "protobuf", ".pb.h"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  }
  const std::regex include(R"re(#include "(server/grpc/[a-z_]+\.h)")re");
  for (const fs::path& file : files_of(source_folder)) {
    if (file.lexically_relative(source_folder).string().starts_with("server/grpc/")) continue;
    for (const std::string& used : matches(gpux::read_file(file), include)) {
      EXPECT_EQ(used, "server/grpc/server.h") << file;
    }
  }
}

TEST(Layers, WhatOthersIncludeOfTheHttpFolderShowsNoTypeOfItsLibrary) {
  for (const char* header : {"server.h", "message.h", "listening.h", "content_coding.h", "tls_check.h"}) {
    const std::string text = gpux::read_file(source_folder / "server" / "http" / header);
    EXPECT_EQ(text.find("boost"), std::string::npos) << header;
    EXPECT_EQ(text.find("server/http/asio.h"), std::string::npos) << header;
  }
}

TEST(Layers, PublicHeadersShowNoOtherLibrarysTypes) {
  const std::regex foreign(
      R"re((onnxruntime|nlohmann|simdjson|yaml-cpp|spdlog|fmt/|CLI/|protozero|\bOrt::|boost/|grpc|protobuf))re");
  const std::vector<fs::path> files = files_of(fs::path(GPUX_SOURCE_DIR) / "include");
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) {
    const std::vector<std::string> found = matches(gpux::read_file(file), foreign);
    EXPECT_TRUE(found.empty()) << file << " names " << found.front();
  }
}

TEST(Layers, NoFileIsADrawer) {
  const std::regex drawer("(.*(util|helper|common|misc|manager).*)", std::regex::icase);
  for (const fs::path& file : files_of(source_folder)) {
    const std::string name = file.stem();
    if (name == "provider_manager") continue;  // a public name that users know
    EXPECT_FALSE(std::regex_match(name, drawer)) << file;
  }
}

}  // namespace
