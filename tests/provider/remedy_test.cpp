#include "provider/remedy.h"

#include <gtest/gtest.h>

#include "base/made_machine.h"
#include "provider/probe.h"

namespace gpux::provider {
namespace {

using test::MadeMachine;

// A package is installed where gpux looks for it, and not into a Python that the distribution manages.
TEST(Remedy, IsACommandThatWorksOnTheMachine) {
  struct Case {
    const char* name;
    const char* machine;
    const char* command;
  };

  const Case cases[] = {
      {"Debian's pip",
       "env PATH=/usr/local/bin:/usr/bin\n/usr/bin/python3\n/usr/bin/pip\n/usr/lib/python3/dist-packages/\n"
       "/usr/lib/python3.11/EXTERNALLY-MANAGED\n",
       "pip install --user --break-system-packages x"},
      {"Debian without pip",
       "env PATH=/usr/bin\n/usr/bin/python3\n/usr/lib/python3/dist-packages/\n/usr/lib/python3.11/EXTERNALLY-MANAGED\n",
       "sudo apt install python3-pip && pip install --user --break-system-packages x"},
      {"an older distribution's pip",
       "env PATH=/usr/bin\n/usr/bin/python3\n/usr/bin/pip\n/usr/lib/python3/dist-packages/\n", "pip install x"},
      {"a virtual environment on Debian",
       "env PATH=/srv/venv/bin:/usr/bin\nenv VIRTUAL_ENV=/srv/venv\n/srv/venv/bin/python3\n/srv/venv/bin/pip\n"
       "/srv/venv/lib/python3.11/site-packages/\n/usr/lib/python3.11/EXTERNALLY-MANAGED\n",
       "pip install x"},
      {"an official Python image",
       "env PATH=/usr/local/bin:/usr/bin\n/usr/local/bin/python3\n/usr/local/bin/pip\n"
       "/usr/local/lib/python3.12/site-packages/\n",
       "pip install x"},
      {"a pip whose folder gpux does not read",
       "env PATH=/opt/tools/bin:/usr/bin\n/opt/tools/bin/pip\n/usr/lib/python3.11/EXTERNALLY-MANAGED\n",
       "pip install --user x"},
      {"nothing", "env PATH=/usr/bin\n", "sudo apt install python3-pip && pip install --user x"},
  };
  for (const Case& one : cases) {
    const MadeMachine machine(std::string("env HOME=/home/user\n") + one.machine);
    EXPECT_EQ(remedy_on(machine, "pip install x"), one.command) << one.name;
    EXPECT_EQ(remedy_on(machine, "install ROCm"), "install ROCm") << one.name;
    EXPECT_EQ(remedy_on(machine, ""), "") << one.name;
  }
}

// So whatever prints a report, a verdict or an error prints the same command.
TEST(Remedy, OfAReportIsThatOfTheMachine) {
  const MadeMachine machine(
      "env HOME=/home/user\nenv PATH=/usr/bin\n/usr/bin/pip\n/usr/lib/python3.11/EXTERNALLY-MANAGED\n"
      "/usr/lib/python3/dist-packages/\n");
  const std::vector<std::string> ids{"openvino", "webgpu", "cpu"};
  for (const ProviderReport& report : survey(ids, {}, {}, machine)) {
    EXPECT_TRUE(report.remedy.starts_with("pip install --user --break-system-packages onnxruntime")) << report.remedy;
  }
}

}  // namespace
}  // namespace gpux::provider
