#include "installation/client.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/scratch_folder.h"

namespace gpux::installation {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> requirements{"onnxruntime-ep-webgpu", "nvidia_cublas~=13.0"};

std::string entry(const std::string& name, const std::string& version, const std::string& hashes) {
  return R"({"download_info": {"url": "https://index/a/)" + name + "-" + version + R"(.whl", "archive_info": )" +
         hashes + R"(}, "metadata": {"name": ")" + name + R"(", "version": ")" + version + R"("}})";
}

const std::string digest = R"({"hashes": {"sha256": "ab12"}})";

TEST(Client, IsToldWhereWheelsComeFrom) {
  const std::vector<std::string> online = planning_arguments(requirements, {}, "report.json");
  EXPECT_THAT(online, Contains("--only-binary"));
  EXPECT_THAT(online, Contains("--no-deps"));
  EXPECT_THAT(online, Contains("--dry-run"));
  EXPECT_THAT(online, Not(Contains("--no-index")));
  const std::vector<std::string> offline = planning_arguments(requirements, {"/wheels"}, "report.json");
  EXPECT_THAT(offline, Contains("--no-index"));
  EXPECT_THAT(offline, Contains("/wheels"));
  const std::vector<std::string> unpacking = unpacking_arguments("requirements.txt", {"/wheels"}, "/place");
  EXPECT_THAT(unpacking, Contains("--require-hashes"));
  EXPECT_THAT(unpacking, Contains("/place"));
  EXPECT_THAT(unpacking, Contains("--no-index"));
  EXPECT_THAT(unpacking, Not(Contains("--dry-run")));
}

// python3 -m pip would run pip.py of the current folder, and import what pip imports from there.
TEST(Client, IsNotTakenFromTheCurrentFolder) {
  const ScratchFolder scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  for (const char* name : {"pip.py", "runpy.py", "json.py", "importlib.py", "sys.py"}) {
    write_file_atomically(scratch.path() / name, std::string_view("raise SystemExit('of the current folder')\n"));
  }
  std::filesystem::current_path(scratch.path());
  const ProcessResult result = run_process(client_command({"--version"}));
  std::filesystem::current_path(before);
  if (result.standard_error.find("No module named 'pip'") != std::string::npos ||
      result.standard_error.find("No module named pip") != std::string::npos) {
    GTEST_SKIP() << "python3 has no pip";
  }
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, testing::StartsWith("pip "));
}

TEST(Plan, IsInTheOrderOfTheRequirements) {
  const std::string report = "{\"install\": [" + entry("nvidia-cublas", "13.1", digest) + "," +
                             entry("onnxruntime_ep_webgpu", "0.4.0", digest) + "]}";
  const std::vector<ort::InstalledPackage> packages = read_plan(report, requirements);
  ASSERT_EQ(packages.size(), 2U);
  EXPECT_EQ(packages[0].name, "onnxruntime-ep-webgpu");
  EXPECT_EQ(packages[0].version, "0.4.0");
  EXPECT_EQ(packages[0].wheel, "onnxruntime_ep_webgpu-0.4.0.whl");
  EXPECT_EQ(packages[0].sha256, "ab12");
  EXPECT_EQ(pinned_requirements(packages),
            "onnxruntime-ep-webgpu==0.4.0 --hash=sha256:ab12\nnvidia-cublas==13.1 --hash=sha256:ab12\n");
}

// Nothing is installed whose digest is not known.
TEST(Plan, WithoutADigestOrAPackageIsRefused) {
  const std::string lacking = "{\"install\": [" + entry("onnxruntime-ep-webgpu", "0.4.0", digest) + "]}";
  const std::string undigested = "{\"install\": [" + entry("onnxruntime-ep-webgpu", "0.4.0", "{}") + "]}";
  for (const std::string& report : {lacking, undigested, std::string("{}"), std::string("not JSON")}) {
    try {
      (void)read_plan(report, requirements);
      ADD_FAILURE() << report;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::network) << error.message();
    }
  }
}

TEST(Failure, IsOneLineWithACodeThatSaysWhatToDo) {
  struct Case {
    const char* words;
    ErrorCode code;
    const char* said;
    bool is_offline = false;
  };

  const Case cases[] = {
      {"WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<x>: Failed to establish a "
       "new connection: [Errno 111] Connection refused')': /simple/a/\nERROR: Could not find a version that satisfies "
       "the requirement a (from versions: none)\nERROR: No matching distribution found for a\n",
       ErrorCode::network, "the package index cannot be reached (connection refused)"},
      {"ERROR: Could not find a version that satisfies the requirement a==99 (from versions: 1.0, 1.1)\n"
       "ERROR: No matching distribution found for a==99\n",
       ErrorCode::not_found, "the package index has no a==99; it has 1.1, 1.0"},
      {"ERROR: Could not find a version that satisfies the requirement a (from versions: none)\n", ErrorCode::not_found,
       "the package index has no wheel of a for this system and this Python"},
      {"ERROR: Could not find a version that satisfies the requirement a (from versions: none)\n", ErrorCode::not_found,
       "the folder '/wheels' has no wheel of a", true},
      {"ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", ErrorCode::storage,
       "the disk is full"},
      {"ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/x'\n",
       ErrorCode::permission, "Permission denied"},
      {"ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n", ErrorCode::network,
       "its SHA-256 differs"},
      {"ERROR: something new\n", ErrorCode::network, "pip: something new"},
      {"", ErrorCode::network, "exit code 2"},
  };
  for (const Case& one : cases) {
    ProcessResult result;
    result.exit_code = 2;
    result.standard_error = one.words;
    const Error error = explain_failure("cannot install x", result, one.is_offline ? Source{"/wheels"} : Source{});
    EXPECT_EQ(error.code(), one.code) << one.words << error.message();
    EXPECT_THAT(error.message(), HasSubstr("cannot install x: "));
    EXPECT_THAT(error.message(), HasSubstr(one.said));
    EXPECT_EQ(error.message().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace gpux::installation
