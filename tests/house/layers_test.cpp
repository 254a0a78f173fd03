// The order of the modules: what a folder under src/ may include, and where ONNX Runtime, the HTTP libraries, gRPC and
// the decoders of images may be named. And how texts of others are cut.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/process.h"
#include "base/scratch_folder.h"

namespace {

namespace fs = std::filesystem;

const fs::path source_folder = fs::path(GPUX_SOURCE_DIR) / "src";

/// A module as the build has it.
struct Module {
  std::vector<std::string> flags;  ///< "-I…": where its sources look for headers
  std::set<std::string> reached;   ///< modules whose headers they find
};

// "server/http" is in modules/server_http.
std::string target_of(std::string module) {
  std::ranges::replace(module, '/', '_');
  return module;
}

// The include folders of each module's target, as CMakeLists.txt writes them. By the folder below src/.
std::map<std::string, Module> modules_of_the_build() {
  std::map<std::string, Module> modules;
  std::istringstream lines(gpux::read_file(GPUX_MODULE_INCLUDES));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    Module& module = modules[name];
    for (std::string folder; words >> folder;) {
      module.flags.push_back("-I" + folder);
      const fs::path path(folder);
      if (path.parent_path().filename() == "modules") module.reached.insert(path.filename());
    }
  }
  return modules;
}

const std::map<std::string, Module>& modules() {
  static const std::map<std::string, Module> all = modules_of_the_build();
  return all;
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp") files.push_back(entry.path());
  }
  return files;
}

// Those of a module alone: some of its folders may be modules of their own.
std::vector<fs::path> files_of_module(const std::string& name) {
  std::vector<fs::path> files = files_of(source_folder / name);
  std::erase_if(files, [&](const fs::path& file) {
    const std::string place = file.lexically_relative(source_folder);
    return std::ranges::any_of(modules(), [&](const auto& other) {
      return other.first.starts_with(name + "/") && place.starts_with(other.first + "/");
    });
  });
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

// Each folder of src is one, and so is each of src/server, whose folders are as large as other modules, and each
// protocol. The schemas of documents belong to what protocols share.
TEST(Layers, EveryFolderIsAModuleOfTheBuild) {
  std::set<std::string> folders, targets;
  for (const fs::path& parent : {source_folder, source_folder / "server", source_folder / "server/protocols"}) {
    for (const auto& entry : fs::directory_iterator(parent)) {
      if (entry.is_directory()) folders.insert(entry.path().lexically_relative(source_folder));
    }
  }
  EXPECT_EQ(folders.erase("server/protocols/openapi"), 1U);
  for (const auto& [name, module] : modules()) targets.insert(name);
  EXPECT_EQ(folders, targets);
}

// A header of each module, asked for by each other one. What a module does not link, its compiler does not find.
TEST(Layers, AnIncludeOfAModuleThatIsNotLinkedDoesNotCompile) {
  std::map<std::string, std::string> headers;
  for (const auto& [name, module] : modules()) {
    for (const fs::path& file : files_of_module(name)) {
      if (file.extension() == ".h") headers[name] = file.lexically_relative(source_folder);
    }
    ASSERT_TRUE(headers.contains(name)) << name << " has no header";
  }
  const gpux::ScratchFolder scratch;
  const fs::path source = scratch.path() / "includes.cpp";
  std::size_t refused = 0;
  for (const auto& [name, module] : modules()) {
    std::string text;
    for (const auto& [other, header] : headers) {
      text += "#if __has_include(\"" + header + "\")\nfound " + target_of(other) + "\n#endif\n";
    }
    gpux::write_file_atomically(source, text);
    std::vector<std::string> command{GPUX_COMPILER, "-E", "-P", "-x", "c++", source};
    command.insert(command.end(), module.flags.begin(), module.flags.end());
    const gpux::ProcessResult result = gpux::run_process(command);
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    std::set<std::string> found;
    std::istringstream words(result.standard_output);
    for (std::string word, other; words >> word >> other;) found.insert(other);
    EXPECT_EQ(found, module.reached) << name;
    EXPECT_TRUE(found.contains(target_of(name))) << name;
    refused += headers.size() - found.size();

    const auto wrong =
        std::ranges::find_if(headers, [&](const auto& header) { return !found.contains(target_of(header.first)); });
    if (wrong == headers.end()) continue;
    gpux::write_file_atomically(source, "#include \"" + wrong->second + "\"\n");
    const gpux::ProcessResult refusal = gpux::run_process(command);
    EXPECT_NE(refusal.exit_code, 0) << name << " includes " << wrong->second;
    EXPECT_NE(refusal.standard_error.find(wrong->second), std::string::npos) << refusal.standard_error;
  }
  EXPECT_GT(refused, modules().size());
}

// Modules that lie above each other in turn would link all the same.
TEST(Layers, NoTwoModulesReachEachOther) {
  for (const auto& [name, module] : modules()) {
    for (const auto& [other, lower] : modules()) {
      if (other == name || !module.reached.contains(target_of(other))) continue;
      EXPECT_FALSE(lower.reached.contains(target_of(name))) << name << " and " << other;
    }
  }
}

// They are built alone, too, on ONNX Runtime's headers and nothing else. The two for the CPU share plugins/cpu.
TEST(Layers, PluginsIncludeTheirOwnHeadersAlone) {
  const std::regex include(R"re(#include "([^"]+)")re");
  const fs::path plugins = fs::path(GPUX_SOURCE_DIR) / "plugins", shared = plugins / "cpu";
  const std::map<std::string, std::vector<fs::path>> folders{{"cpu", {shared}},
                                                             {"encoder", {plugins / "encoder/src", shared}},
                                                             {"decoder", {plugins / "decoder/src", shared}},
                                                             {"example", {plugins / "example/src"}}};
  for (const auto& plugin : fs::directory_iterator(plugins)) {
    for (const fs::path& file : files_of(plugin.path())) {
      for (const std::string& used : matches(gpux::read_file(file), include)) {
        const bool is_found = std::ranges::any_of(folders.at(plugin.path().filename()),
                                                  [&](const fs::path& folder) { return fs::exists(folder / used); });
        EXPECT_TRUE(is_found || used.starts_with("onnxruntime")) << file << " includes " << used;
      }
    }
  }
}

// The folders of the providers for the CPU, each below those before it: with the same name in two places, a newcomer
// would look in the wrong one.
TEST(Layers, FoldersOfTheProvidersForTheCpuIncludeOnlyThoseBelow) {
  const std::map<std::string, std::vector<std::string>> providers{
      {"cpu", {"plugin", "graph", "kernels"}},
      {"encoder/src", {"provider", "plugin", "recognizer", "graph", "encoder", "kernels"}},
      {"decoder/src", {"provider", "plugin", "recognizer", "graph", "decoder", "block_kernels", "kernels"}}};
  const std::regex include(R"re(#include "([^"/]+)/)re");
  const fs::path plugins = fs::path(GPUX_SOURCE_DIR) / "plugins";
  for (const auto& [place, folders] : providers) {
    for (const auto& entry : fs::directory_iterator(plugins / place)) {
      if (!entry.is_directory()) continue;
      const auto folder = std::ranges::find(folders, entry.path().filename().string());
      ASSERT_NE(folder, folders.end()) << entry.path();
      EXPECT_TRUE(place == "cpu" || !fs::exists(plugins / "cpu" / *folder)) << entry.path();
      const std::set<std::string> allowed(folder, folders.end());
      for (const fs::path& file : files_of(entry.path())) {
        for (const std::string& used : matches(gpux::read_file(file), include)) {
          EXPECT_TRUE(allowed.contains(used)) << file << " includes from " << used;
        }
      }
    }
  }
}

// So that what recognises and computes is tested without it.
TEST(Layers, OnlyTheFoldersForItOfPluginsNameOnnxRuntimesHeaders) {
  const fs::path plugins = fs::path(GPUX_SOURCE_DIR) / "plugins";
  for (const char* folder : {"cpu/kernels", "encoder/src/encoder", "encoder/src/recognizer", "decoder/src/decoder",
                             "decoder/src/block_kernels", "decoder/src/recognizer"}) {
    const std::vector<fs::path> files = files_of(plugins / folder);
    EXPECT_FALSE(files.empty()) << folder;
    for (const fs::path& file : files) {
      EXPECT_EQ(gpux::read_file(file).find("#include <onnxruntime"), std::string::npos) << file;
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
  // Triton's configuration is a text of protobuf's.
  expect_named_only_in({"server/grpc/", "server/models/triton_config"},
                       {"grpc::", "<grpc", "google::protobuf", "<google/", ".pb.h\"", "inference::"});
}

TEST(Layers, OnlyTheImageFolderNamesTheDecodersOfImages) {
  expect_named_only_in({"image/"}, {"<jpeglib", "<jerror", "<turbojpeg", "<png", "<webp/"});
}

TEST(Layers, OnlyTheRegistryModuleNamesCurl) {
  expect_named_only_in({"registry/http/"}, {"<curl/", "CURLOPT_", "CURLcode", "curl_easy"});
}

TEST(Layers, OnlyTheFoldersForThemOfVectorStoresNameTheirLibraries) {
  expect_named_only_in({"vector_store/postgres/"}, {"<libpq", "PGconn", "PGresult", "PGRES_"});
  expect_named_only_in({"vector_store/local/"}, {"<usearch/", "unum::"});
}

// Where a test sees the order of writes, syncs and renames (base/durability.h), and no temporary folder is left behind.
TEST(Layers, OnlyBaseMakesFilesDurableAndTemporary) {
  expect_named_only_in(
      {"base/"}, {"::fsync(", "::fdatasync(", "::syncfs(", "std::rename(", "::mkdtemp(", "::mkostemp(", "::mkstemp("});
  // Memory that is shared with clients is not kept.
  expect_named_only_in({"base/", "server/requests/shared_regions.cpp"}, {"::pwrite("});
}

// Elsewhere it is forgotten where an exception is thrown.
TEST(Layers, DescriptorsAreClosedInOnePlace) {
  constexpr std::string_view call = "::close(";
  std::set<std::string> closing;
  for (const fs::path& file : files_of(source_folder)) {
    const std::string text = gpux::read_file(file);
    for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
      const bool is_member = at != 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
      if (!is_member) closing.insert(file.lexically_relative(source_folder));
    }
  }
  EXPECT_EQ(closing, std::set<std::string>{"base/unique_fd.h"}) << "use UniqueFd";
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

// /predict of gpux's own protocol also answers clients of text-embeddings-inference, and its document shows all.
TEST(Layers, ProtocolsDoNotIncludeEachOther) {
  const std::set<std::string> protocols{"ollama", "open_inference", "openai", "own", "tei"};
  const std::set<std::pair<std::string, std::string>> allowed{{"own", "open_inference"}, {"own", "tei"}};
  const std::regex include(R"re(#include "server/protocols/([a-z_]+)/)re");
  const fs::path folder = source_folder / "server/protocols";
  std::set<std::pair<std::string, std::string>> found;
  for (const std::string& protocol : protocols) {
    for (const fs::path& file : files_of(folder / protocol)) {
      for (const std::string& used : matches(gpux::read_file(file), include)) {
        if (protocols.contains(used) && used != protocol) found.emplace(protocol, used);
      }
    }
  }
  EXPECT_EQ(found, allowed);
  for (const fs::path& file : files_of(folder / "openapi")) {
    for (const std::string& used : matches(gpux::read_file(file), include)) EXPECT_EQ(used, "openapi") << file;
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
      R"re((onnxruntime|nlohmann|simdjson|yaml-cpp|spdlog|fmt/|CLI/|protozero|\bOrt::|boost/|grpc|protobuf|curl/))re");
  const std::vector<fs::path> files = files_of(fs::path(GPUX_SOURCE_DIR) / "include");
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) {
    const std::vector<std::string> found = matches(gpux::read_file(file), foreign);
    EXPECT_TRUE(found.empty()) << file << " names " << found.front();
  }
}

TEST(Layers, NoFileIsCalledUtilsHelpersOrCommon) {
  const std::regex drawer("(.*(util|helper|common|misc|manager).*)", std::regex::icase);
  for (const fs::path& file : files_of(source_folder)) {
    const std::string name = file.stem();
    if (name == "provider_manager") continue;  // a public name that users know
    EXPECT_FALSE(std::regex_match(name, drawer)) << file;
  }
}

// Names and messages that clients or models wrote are shortened by utf8_prefix().
TEST(Texts, AreCutBetweenCharacters) {
  constexpr std::string_view cut = "substr(0, ";
  std::size_t files = 0;
  for (const char* folder : {"server", "runtime", "generation", "pipeline", "importer", "checkpoint"}) {
    for (const fs::path& file : files_of(source_folder / folder)) {
      const std::string text = gpux::read_file(file);
      ++files;
      for (std::size_t at = text.find(cut); at != std::string::npos; at = text.find(cut, at + 1)) {
        // Fewer are of words that gpux knows.
        constexpr int min_shown = 20;
        EXPECT_LT(std::atoi(text.c_str() + at + cut.size()), min_shown) << file << ": " << text.substr(at, 40);
      }
    }
  }
  EXPECT_GT(files, 100U);
}

}  // namespace
