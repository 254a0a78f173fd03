#include "provider/remedy.h"

#include <gtest/gtest.h>

#include "base/made_machine.h"
#include "provider/probe.h"

namespace gpux::provider {
namespace {

using test::MadeMachine;

TEST(Remedy, IsACommandThatWorksOnTheMachine) {
  struct Case {
    const char* name;
    const char* machine;
    const char* command;
  };

  const char* command = "gpux providers install x";
  const char* with_pip = "sudo apt install python3-pip && gpux providers install x";
  const Case cases[] = {
      {"Debian's pip", "env PATH=/usr/local/bin:/usr/bin\n/usr/bin/python3\n/usr/bin/pip\n", command},
      {"a pip of another name", "env PATH=/usr/bin\n/usr/bin/python3\n/usr/bin/pip3\n", command},
      {"Debian without pip", "env PATH=/usr/bin\n/usr/bin/python3\n", with_pip},
      {"a pip that is not on PATH", "env PATH=/usr/bin\n/opt/bin/pip\n", with_pip},
      {"nothing", "env PATH=/usr/bin\n", with_pip},
  };
  for (const Case& one : cases) {
    const MadeMachine machine(std::string("env HOME=/home/user\n") + one.machine);
    EXPECT_EQ(remedy_on(machine, command), one.command) << one.name;
    EXPECT_EQ(remedy_on(machine, "install ROCm"), "install ROCm") << one.name;
    EXPECT_EQ(remedy_on(machine, ""), "") << one.name;
  }
}

// So whatever prints a report, a verdict or an error prints the same command.
TEST(Remedy, OfAReportIsThatOfTheMachine) {
  const MadeMachine machine("env HOME=/home/user\nenv PATH=/usr/bin\n");
  const std::vector<std::string> ids{"openvino", "webgpu", "cpu"};
  for (const ProviderReport& report : survey(ids, {}, {}, machine)) {
    EXPECT_EQ(report.remedy, "sudo apt install python3-pip && gpux providers install " + report.id);
  }
}

}  // namespace
}  // namespace gpux::provider
