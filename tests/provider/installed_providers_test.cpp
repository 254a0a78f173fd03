#include "ort/installed_providers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/made_machine.h"
#include "ort/core_search.h"
#include "provider/probe.h"

namespace gpux::provider {
namespace {

using ort::InstalledProvider;
using test::MadeMachine;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

constexpr const char* common = R"(
env HOME=/home/ada
env PATH=/usr/local/bin
/usr/local/bin/python3
/usr/local/bin/pip
)";
const std::string python_core = "/usr/local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.25.0\n";
const std::string webgpu = "onnxruntime_ep_webgpu/libonnxruntime_providers_webgpu.so";
const std::string core = "onnxruntime/capi/libonnxruntime.so.";

// As `gpux providers install` leaves it.
fs::path install(const Machine& machine, const std::string& name, const std::string& version,
                 const std::vector<std::string>& files) {
  InstalledProvider provider;
  provider.name = name;
  provider.version = version;
  provider.folder = ort::installed_providers_folder(machine) / name / version;
  for (const std::string& file : files) write_file_atomically(provider.packages_folder() / file, name + version);
  provider.libraries = ort::library_files(provider.packages_folder());
  ort::record_installation(provider);
  return provider.folder;
}

ProviderReport report_of(const std::string& id, const Machine& machine) {
  const std::vector<std::string> ids{id};
  return survey(ids, ort::find_cores(machine), find_plugins({}, machine), machine).front();
}

std::vector<std::string> versions_of(const std::vector<InstalledProvider>& providers) {
  std::vector<std::string> versions;
  for (const InstalledProvider& provider : providers) versions.push_back(provider.name + " " + provider.version);
  return versions;
}

TEST(InstalledProviders, AreListedWithTheNewestOfEachFirst) {
  const MadeMachine machine(common);
  EXPECT_THAT(ort::find_installed_providers(machine), IsEmpty());
  for (const char* version : {"0.9.0", "0.10.0", "0.4.0"}) install(machine, "webgpu", version, {webgpu});
  install(machine, "cpu", "1.31.1", {core + "1.31.1"});
  EXPECT_THAT(versions_of(ort::find_installed_providers(machine)),
              ElementsAre("cpu 1.31.1", "webgpu 0.10.0", "webgpu 0.9.0", "webgpu 0.4.0"));
  const std::vector<PluginFile> plugins = find_plugins({}, machine);
  ASSERT_EQ(plugins.size(), 3U);
  EXPECT_THAT(plugins.front().library.string(), HasSubstr("/webgpu/0.10.0/"));
  EXPECT_EQ(plugins.front().origin, "gpux providers install");
}

// What an interrupted installation left, and what somebody put there.
TEST(InstalledProviders, AreThoseThatWereInstalledWhole) {
  const MadeMachine machine(common);
  const fs::path folder = ort::installed_providers_folder(machine) / "webgpu";
  write_file_atomically(folder / "incoming.gpux-abcdef/new/site-packages" / webgpu, "half");
  write_file_atomically(folder / "0.4.0/site-packages" / webgpu, "without a record");
  EXPECT_THAT(ort::find_installed_providers(machine), IsEmpty());
  EXPECT_THAT(find_plugins({}, machine), IsEmpty());
}

TEST(InstalledProviders, ThatHaveChangedAreSaidAndNotUsed) {
  const MadeMachine machine(common + python_core);
  const fs::path older = install(machine, "webgpu", "0.4.0", {webgpu});
  const fs::path newer = install(machine, "webgpu", "0.5.0", {webgpu});
  // Of the same size: the time of change gives it away, and the content decides.
  std::string content = read_file(newer / "site-packages" / webgpu);
  write_file_atomically(newer / "site-packages" / webgpu, content);
  EXPECT_EQ(ort::find_installed_providers(machine).front().damage, "");
  content[0] = 'x';
  write_file_atomically(newer / "site-packages" / webgpu, content);
  const auto found = ort::find_installed_providers(machine, ort::Comparison::content);
  EXPECT_EQ(found.front().damage, "'" + webgpu + "' has changed");
  EXPECT_EQ(found.back().damage, "");

  const MadeMachine other(common + python_core);
  const fs::path only = install(other, "webgpu", "0.4.0", {webgpu});
  fs::remove(only / "site-packages" / webgpu);
  EXPECT_THAT(find_plugins({}, other), IsEmpty());
  const ProviderReport report = report_of("webgpu", other);
  EXPECT_FALSE(report.available);
  EXPECT_EQ(report.reason, "the installation webgpu 0.4.0 is damaged: '" + webgpu + "' is missing");
  EXPECT_EQ(report.remedy, "gpux providers install webgpu");
}

TEST(InstalledProviders, WithARecordThatIsNoneAreSaid) {
  const MadeMachine machine(common);
  const fs::path folder = install(machine, "webgpu", "0.4.0", {webgpu});
  for (const char* record : {"{}", "[1]", "", "{\"provider\": 3}"}) {
    write_file_atomically(folder / "installed.json", std::string_view(record));
    const auto found = ort::find_installed_providers(machine, ort::Comparison::content);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_THAT(found.front().damage, HasSubstr("installed.json")) << record;
    EXPECT_EQ(found.front().version, "0.4.0");
  }
}

// A provider's own core must not become that of every model; one that was installed as such may.
TEST(InstalledCores, GoBehindPythonsUnlessTheyAreTheCpus) {
  const std::string bridge = "onnxruntime/capi/libonnxruntime_providers_openvino.so";
  const MadeMachine machine(common + python_core);
  install(machine, "openvino", "1.24.1", {core + "1.24.1", bridge});
  std::vector<ort::CoreFile> cores = ort::find_cores(machine);
  ASSERT_EQ(cores.size(), 2U);
  EXPECT_EQ(cores.front().version, "1.25.0");
  EXPECT_EQ(cores.back().origin, "gpux providers install");
  const ProviderReport report = report_of("openvino", machine);
  EXPECT_TRUE(report.available) << report.reason;
  EXPECT_THAT(report.core.string(), HasSubstr("/openvino/1.24.1/"));
  install(machine, "cpu", "1.31.1", {core + "1.31.1"});
  cores = ort::find_cores(machine);
  ASSERT_EQ(cores.size(), 3U);
  EXPECT_EQ(cores.front().version, "1.31.1");
}

TEST(InstalledCores, GoBeforeOthersThatBringTheSameBridge) {
  const std::string bridge = "onnxruntime/capi/libonnxruntime_providers_openvino.so";
  const MadeMachine machine(common + python_core + "/usr/local/lib/python3.12/site-packages/" + bridge + "\n");
  EXPECT_THAT(report_of("openvino", machine).core.string(), HasSubstr("python3.12"));
  install(machine, "openvino", "1.24.1", {core + "1.24.1", bridge});
  EXPECT_THAT(report_of("openvino", machine).core.string(), HasSubstr("/openvino/1.24.1/"));
}

TEST(InstalledCores, BringTheVendorsLibrariesOfTheirOwnPackages) {
  const MadeMachine machine(std::string(common) + "/dev/nvidiactl\n/dev/nvidia0\n");
  const std::string bridge = "onnxruntime/capi/libonnxruntime_providers_cuda.so";
  install(machine, "cuda", "1.31.1", {core + "1.31.1", bridge});
  EXPECT_THAT(report_of("cuda", machine).reason, HasSubstr("libcudnn.so.9: not found"));
  install(machine, "cuda", "1.31.2", {core + "1.31.2", bridge, "nvidia/cudnn/lib/libcudnn.so.9"});
  const ProviderReport report = report_of("cuda", machine);
  EXPECT_TRUE(report.available) << report.reason;
  EXPECT_THAT(report.core.string(), HasSubstr("/cuda/1.31.2/"));
}

// The lock is what `gpux providers remove` asks for.
TEST(InstalledProviders, AreHeldByTheProcessThatUsesThem) {
  const MadeMachine machine(common);
  const fs::path folder = install(machine, "webgpu", "0.4.0", {webgpu});
  const auto is_free = [&] { return FileLock::try_exclusive(ort::use_lock(folder)).has_value(); };
  EXPECT_TRUE(is_free());
  ort::hold_installation_of(folder / "site-packages" / webgpu);
  EXPECT_FALSE(is_free());
}

}  // namespace
}  // namespace gpux::provider
