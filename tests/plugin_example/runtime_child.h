#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "multiply_model.h"

namespace gpux::plugin_example {

using Environment = std::map<std::string, std::string>;
using Report = std::function<void(const std::string& line)>;

/// What a child process reported, and how it ended: 128 + signal, or its exit code.
struct ChildOutcome {
  std::vector<std::string> lines;
  int exit_code;
};

/// Runs `scenario` in a forked process with `environment` added. ONNX Runtime keeps its environment and libraries for
/// the whole of a process's life, so each scenario has one of its own; this process never opens ONNX Runtime.
ChildOutcome run_in_child(const Environment& environment, const std::function<void(const Report& report)>& scenario);

/// "failed CODE: text", on one line.
std::string text_of(const Ort::Exception& error);

/// ONNX Runtime with the example provider's library, for use in a child.
class Runtime {
 public:
  /// Opens ONNX Runtime; the plugin is not registered yet.
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  void register_plugin();
  /// The example provider's devices.
  [[nodiscard]] std::vector<Ort::ConstEpDevice> devices() const;
  /// A session on the example provider's devices (none: on CPU). Sessions must end before this object does.
  Ort::Session create_session(const std::string& model, const std::vector<Ort::ConstEpDevice>& devices,
                              const std::map<std::string, std::string>& provider_options = {},
                              const std::map<std::string, std::string>& configuration = {});

  /// A float32 value in the memory of the first device, outside of any session.
  Ort::Value device_value(std::span<const std::int64_t> shape);
  /// Copies by the provider's own means.
  void copy(const Ort::Value& from, const Ort::Value& to);

 private:
  Ort::Env environment_{nullptr};
  bool registered_ = false;
};

/// Which nodes each provider of the session holds: "PROVIDER: NODE …; PROVIDER: …", providers by name.
std::string placement(const Ort::Session& session);

struct Feed {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Runs the session on inputs by name and returns "sum" with its shape.
Feed run(Ort::Session& session, const std::map<std::string, Feed>& inputs,
         const Ort::RunOptions& options = Ort::RunOptions{});

}  // namespace gpux::plugin_example
