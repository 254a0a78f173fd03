#pragma once

#include "gpux/options.h"
#include "isolation/load_message.h"
#include "isolation/sandbox_plan.h"

namespace gpux::isolation {

/// What this machine and the request say. Makes the cache's folder.
SandboxFacts find_sandbox_facts(const WorkerLoad& request);

/// Takes from this process, for good, what the plan does not give it. To be called before there is a second thread, and
/// before code that it is meant for is loaded. What the kernel does not support is reported as missing; with `strict`
/// it is an error (usage).
SandboxReport apply_sandbox(const SandboxPlan& plan, Sandbox sandbox);

/// What a sandbox would report on this machine, found by applying one in a child of this process. To be called before
/// there is a second thread. The limit of memory depends on the model, and is left out. Error internal.
SandboxReport try_sandbox();

}  // namespace gpux::isolation
