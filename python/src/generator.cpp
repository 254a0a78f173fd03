#include <gpux/error.h>
#include <gpux/generator.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupt.h"
#include "model_options.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

using Calls = std::vector<std::tuple<std::string, std::string, std::string>>;
// role, content, reasoning, calls, tool_call_id, name
using Message = std::tuple<std::string, std::string, std::string, Calls, std::string, std::string>;

OutputConstraint constraint_of(const std::string& kind, std::string text) {
  using Kind = OutputConstraint::Kind;
  if (kind == "json_object") return {Kind::json_object, {}};
  if (kind == "json_schema") return {Kind::json_schema, std::move(text)};
  return {kind == "regex" ? Kind::regex : Kind::grammar, std::move(text)};
}

// What gpux.generator has checked; true where the name is a number's.
bool set_number(GenerationSettings& settings, const std::string& name, nb::handle value) {
  const auto number = [&] { return nb::cast<float>(value); };
  if (name == "temperature") {
    settings.temperature = number();
  } else if (name == "top_k") {
    settings.top_k = nb::cast<std::uint32_t>(value);
  } else if (name == "top_p") {
    settings.top_p = number();
  } else if (name == "min_p") {
    settings.min_p = number();
  } else if (name == "typical_p") {
    settings.typical_p = number();
  } else if (name == "repetition_penalty") {
    settings.repetition_penalty = number();
  } else if (name == "repetition_window") {
    settings.repetition_window = nb::cast<std::size_t>(value);
  } else if (name == "presence_penalty") {
    settings.presence_penalty = number();
  } else if (name == "frequency_penalty") {
    settings.frequency_penalty = number();
  } else if (name == "seed") {
    settings.seed = nb::cast<std::uint64_t>(value);
  } else if (name == "max_tokens") {
    settings.max_tokens = nb::cast<std::size_t>(value);
  } else if (name == "min_tokens") {
    settings.min_tokens = nb::cast<std::size_t>(value);
  } else if (name == "top_log_probabilities") {
    settings.top_log_probabilities = nb::cast<std::uint32_t>(value);
  } else if (name == "prompt_log_probabilities") {
    settings.prompt_log_probabilities = nb::cast<std::uint32_t>(value);
  } else {
    return false;
  }
  return true;
}

GenerationSettings to_settings(const nb::dict& values) {
  GenerationSettings settings;
  for (const auto& [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    if (set_number(settings, name, value)) continue;
    if (name == "stop") {
      settings.stop = nb::cast<std::vector<std::string>>(value);
    } else if (name == "stop_tokens") {
      settings.stop_tokens = nb::cast<std::vector<std::uint32_t>>(value);
    } else if (name == "logit_bias") {
      settings.logit_bias = nb::cast<std::vector<std::pair<std::uint32_t, float>>>(value);
    } else if (name == "bad_words") {
      settings.bad_words = nb::cast<std::vector<std::string>>(value);
    } else if (name == "cache_salt") {
      settings.cache_salt = nb::cast<std::string>(value);
    } else if (name == "ignore_eos") {
      settings.ignores_end = nb::cast<bool>(value);
    } else if (name == "log_probabilities") {
      settings.log_probabilities = nb::cast<bool>(value);
    } else if (name == "prompt_only") {
      settings.prompt_only = nb::cast<bool>(value);
    } else if (name == "constraint") {
      const auto [kind, text] = nb::cast<std::pair<std::string, std::string>>(value);
      settings.constraint = constraint_of(kind, text);
    } else {
      throw Error(ErrorCode::internal, "there is no setting '" + name + "'");
    }
  }
  return settings;
}

// "auto", "none" or "required"; the function that is called, or ""; whether several calls may come.
using Choice = std::tuple<std::string, std::string, bool>;

std::optional<ReasoningEffort> to_effort(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const auto& [known, effort] :
       {std::pair("none", ReasoningEffort::none), std::pair("minimal", ReasoningEffort::minimal),
        std::pair("low", ReasoningEffort::low), std::pair("medium", ReasoningEffort::medium),
        std::pair("high", ReasoningEffort::high), std::pair("xhigh", ReasoningEffort::xhigh)}) {
    if (name == known) return effort;
  }
  throw Error(ErrorCode::internal, "there is no effort '" + name + "'");
}

// What becomes of a conversation, besides its messages.
struct Asked {
  std::string tools, more, reasoning;
};

ChatOptions to_chat_options(const Asked& asked, const Choice& choice) {
  ChatOptions options{.tools = asked.tools, .template_values = asked.more};
  options.reasoning = to_effort(asked.reasoning);
  const auto& [which, name, allows_several] = choice;
  if (which == "none") options.tool_choice = ToolChoice::none;
  if (which == "required") options.tool_choice = ToolChoice::required;
  options.tool_name = name;
  options.allows_several_calls = allows_several;
  return options;
}

GeneratorOptions to_options(const nb::dict& values) {
  GeneratorOptions options;
  for (const auto& [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    if (name == "max_sequences") {
      options.max_sequences = nb::cast<std::size_t>(value);
    } else if (name == "max_waiting") {
      options.max_waiting = nb::cast<std::size_t>(value);
    } else if (name == "context_length") {
      options.context_length = nb::cast<std::size_t>(value);
    } else if (name == "cache_bytes") {
      options.cache_bytes = nb::cast<std::uint64_t>(value);
    } else if (name == "prompt_chunk") {
      options.prompt_chunk = nb::cast<std::size_t>(value);
    } else if (name == "cache_precision") {
      const auto precision = nb::cast<std::string>(value);
      options.cache_precision = precision == "int8"      ? CachePrecision::int8
                                : precision == "float16" ? CachePrecision::float16
                                : precision == "model"   ? CachePrecision::as_written
                                                         : CachePrecision::automatic;
    } else if (name == "prompt_cache") {
      options.prompt_cache = nb::cast<std::string>(value);
    } else if (name == "prompt_cache_bytes") {
      options.prompt_cache_bytes = nb::cast<std::uint64_t>(value);
    } else if (name == "draft") {
      options.draft = nb::cast<std::string>(value);
    } else if (name == "prompt_lookup") {
      options.prompt_lookup = nb::cast<bool>(value);
    } else {
      options.reuses_prefixes = nb::cast<bool>(value);
    }
  }
  return options;
}

std::vector<ChatMessage> to_messages(std::vector<Message> given) {
  std::vector<ChatMessage> messages;
  for (auto& [role, content, reasoning, calls, tool_call_id, name] : given) {
    ChatMessage message{.role = std::move(role),
                        .content = std::move(content),
                        .reasoning = std::move(reasoning),
                        .tool_calls = {},
                        .tool_call_id = std::move(tool_call_id),
                        .name = std::move(name)};
    for (auto& [id, function, arguments] : calls) {
      message.tool_calls.push_back(
          {.id = std::move(id), .name = std::move(function), .arguments = std::move(arguments)});
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

nb::object text_of(const std::string& text) {
  return nb::str(text.c_str(), text.size());
}

// A message as users append it to their conversation.
nb::dict to_dict(const ChatMessage& message) {
  nb::dict result;
  result["role"] = text_of(message.role);
  result["content"] = text_of(message.content);
  if (!message.reasoning.empty()) result["reasoning_content"] = text_of(message.reasoning);
  if (message.tool_calls.empty()) return result;
  nb::list calls;
  for (const ToolCall& call : message.tool_calls) {
    nb::dict function, one;
    function["name"] = text_of(call.name);
    function["arguments"] = text_of(call.arguments);
    one["id"] = text_of(call.id);
    one["type"] = nb::str("function");
    one["function"] = function;
    calls.append(one);
  }
  result["tool_calls"] = calls;
  return result;
}

std::string to_string(ChatDelta::Kind kind) {
  switch (kind) {
    case ChatDelta::Kind::content:
      return "content";
    case ChatDelta::Kind::reasoning:
      return "reasoning";
    case ChatDelta::Kind::tool_call:
      return "tool_call";
    case ChatDelta::Kind::arguments:
      return "arguments";
  }
  return {};
}

// Ctrl-C ends the text that a call waits for.
template <typename Stream, typename Work>
auto while_cancellable(Stream& stream, const Interruptible& interruptible, const Work& work) {
  const std::stop_callback cancel(interruptible.token(), [&] { stream.cancel(); });
  auto result = work();
  interruptible.check();
  return result;
}

template <typename Stream, typename Piece, typename Whole>
class HeldStream {
 public:
  explicit HeldStream(Stream stream) : stream_(std::move(stream)) {}

  [[nodiscard]] std::optional<Piece> next() {
    return without_gil([&](const Interruptible& interruptible) {
      return while_cancellable(stream_, interruptible, [&] { return stream_.next(); });
    });
  }

  void cancel() { stream_.cancel(); }

  [[nodiscard]] Whole completion() const { return stream_.completion(); }

 private:
  Stream stream_;
};

using HeldTextStream = HeldStream<GenerationStream, GeneratedPiece, Completion>;
using HeldChatStream = HeldStream<ChatStream, ChatDelta, ChatCompletion>;

// The whole text of a stream.
template <typename Stream>
auto drained(Stream stream, const Interruptible& interruptible) {
  return while_cancellable(stream, interruptible, [&] {
    while (stream.next()) {
    }
    return stream.completion();
  });
}

class LoadedGenerator {
 public:
  LoadedGenerator(const std::string& model, nb::dict settings, const nb::dict& given, nb::object progress) {
    const ModelOptions options = to_model_options(std::move(settings));
    GeneratorOptions generator = to_options(given);
    if (!progress.is_none()) {
      generator.on_load = [&](LoadPhase phase) {
        const std::string_view name = gpux::to_string(phase);
        const nb::gil_scoped_acquire acquired;
        progress(nb::str(name.data(), name.size()));
      };
    }
    generator_ = without_gil(
        [&](const Interruptible& /*unused*/) { return std::make_shared<const Generator>(model, options, generator); });
  }

  void close() {
    // Ends what runs, which waits for the run that is under way.
    const nb::gil_scoped_release released;
    generator_.reset();
  }

  [[nodiscard]] std::shared_ptr<const Generator> opened() const {
    if (!generator_) throw Error(ErrorCode::usage, "the generator is closed: make another one");
    return generator_;
  }

  [[nodiscard]] Completion generate(const std::string& prompt, const nb::dict& values) const {
    const std::shared_ptr<const Generator> generator = opened();
    const GenerationSettings settings = to_settings(values);
    return without_gil([&](const Interruptible& interruptible) {
      return drained(generator->stream(prompt, settings), interruptible);
    });
  }

  [[nodiscard]] HeldTextStream stream(const std::string& prompt, const nb::dict& values) const {
    const std::shared_ptr<const Generator> generator = opened();
    const GenerationSettings settings = to_settings(values);
    return without_gil(
        [&](const Interruptible& /*unused*/) { return HeldTextStream(generator->stream(prompt, settings)); });
  }

  [[nodiscard]] ChatCompletion chat(std::vector<Message> given, const std::string& tools, const Choice& choice,
                                    const std::string& more, const std::string& reasoning,
                                    const nb::dict& values) const {
    const std::shared_ptr<const Generator> generator = opened();
    const GenerationSettings settings = to_settings(values);
    const std::vector<ChatMessage> messages = to_messages(std::move(given));
    const ChatOptions options = to_chat_options({tools, more, reasoning}, choice);
    return without_gil([&](const Interruptible& interruptible) {
      return drained(generator->stream_chat(messages, settings, options), interruptible);
    });
  }

  [[nodiscard]] HeldChatStream stream_chat(std::vector<Message> given, const std::string& tools, const Choice& choice,
                                           const std::string& more, const std::string& reasoning,
                                           const nb::dict& values) const {
    const std::shared_ptr<const Generator> generator = opened();
    const GenerationSettings settings = to_settings(values);
    const std::vector<ChatMessage> messages = to_messages(std::move(given));
    const ChatOptions options = to_chat_options({tools, more, reasoning}, choice);
    return without_gil([&](const Interruptible& /*unused*/) {
      return HeldChatStream(generator->stream_chat(messages, settings, options));
    });
  }

  [[nodiscard]] std::string chat_prompt(std::vector<Message> given, const std::string& tools, const std::string& more,
                                        const std::string& reasoning, bool add_generation_prompt) const {
    ChatOptions options = to_chat_options({tools, more, reasoning}, {"auto", "", true});
    options.add_generation_prompt = add_generation_prompt;
    return opened()->chat_prompt(to_messages(std::move(given)), options);
  }

 private:
  std::shared_ptr<const Generator> generator_;
};

void bind_results(nb::module_& module) {
  nb::class_<TokenLogProbability>(module, "TokenLogProbability", "A token and its probability.")
      .def_ro("token", &TokenLogProbability::token)
      .def_ro("log_probability", &TokenLogProbability::log_probability)
      .def_prop_ro("bytes",
                   [](const TokenLogProbability& one) { return nb::bytes(one.bytes.data(), one.bytes.size()); });
  nb::class_<TokenScore>(module, "TokenScore", "The probabilities at the position of a token.")
      .def_ro("chosen", &TokenScore::chosen)
      .def_ro("rank", &TokenScore::rank)
      .def_ro("most_probable", &TokenScore::most_probable);
  nb::class_<Completion>(module, "Completion", "A generated text. str() gives the text.")
      .def_ro("text", &Completion::text)
      .def_ro("tokens", &Completion::tokens)
      .def_prop_ro("finish_reason", [](const Completion& one) { return std::string(gpux::to_string(one.reason)); })
      .def_ro("scores", &Completion::scores)
      .def_ro("prompt_scores", &Completion::prompt_scores)
      .def_ro("end_token", &Completion::end_token)
      .def_ro("stop_text", &Completion::stop_text)
      .def_ro("prompt_tokens", &Completion::prompt_tokens)
      .def_ro("cached_tokens", &Completion::cached_tokens)
      .def_ro("draft_tokens", &Completion::draft_tokens)
      .def_ro("accepted_draft_tokens", &Completion::accepted_draft_tokens)
      .def_prop_ro("queue_time", [](const Completion& one) { return one.queue_time.count(); })
      .def_prop_ro("time_to_first_token", [](const Completion& one) { return one.time_to_first_token.count(); })
      .def_prop_ro("time", [](const Completion& one) { return one.time.count(); })
      .def("__str__", [](const Completion& one) { return one.text; });
  nb::class_<ToolCall>(module, "ToolCall", "A call of a function that a model asks for.")
      .def_ro("id", &ToolCall::id)
      .def_ro("name", &ToolCall::name)
      .def_ro("arguments", &ToolCall::arguments)
      .def("__repr__", [](const ToolCall& call) { return call.name + "(" + call.arguments + ")"; });
  nb::class_<ChatDelta>(module, "ChatDelta", "A part of an answer.")
      .def_prop_ro("kind", [](const ChatDelta& delta) { return to_string(delta.kind); })
      .def_ro("text", &ChatDelta::text)
      .def_ro("index", &ChatDelta::index)
      .def_ro("id", &ChatDelta::id)
      .def_ro("name", &ChatDelta::name)
      .def("__repr__", [](const ChatDelta& delta) { return to_string(delta.kind) + ": " + delta.text + delta.name; });
  nb::class_<ChatCompletion>(module, "ChatCompletion", "An answer of a model. str() gives its content.")
      .def_prop_ro("content", [](const ChatCompletion& one) { return one.message.content; })
      .def_prop_ro("reasoning", [](const ChatCompletion& one) { return one.message.reasoning; })
      .def_prop_ro("tool_calls", [](const ChatCompletion& one) { return one.message.tool_calls; })
      .def_prop_ro(
          "message", [](const ChatCompletion& one) { return to_dict(one.message); },
          nb::for_getter(nb::sig("def message(self, /) -> dict[str, typing.Any]")))
      .def_prop_ro("finish_reason",
                   [](const ChatCompletion& one) { return std::string(gpux::to_string(one.completion.reason)); })
      .def_ro("completion", &ChatCompletion::completion)
      .def("__str__", [](const ChatCompletion& one) { return one.message.content; });
  nb::class_<GenerationMemory>(module, "GenerationMemory", "The memory that a model takes.")
      .def_ro("weight_bytes", &GenerationMemory::weight_bytes)
      .def_ro("cache_bytes_per_token", &GenerationMemory::cache_bytes_per_token)
      .def_ro("tokens", &GenerationMemory::tokens)
      .def_prop_ro("total_bytes", &GenerationMemory::total_bytes);
}

}  // namespace

void bind_generator(nb::module_& module) {
  bind_results(module);
  nb::class_<HeldTextStream>(module, "HeldTextStream", "A text that is being generated.")
      .def("next",
           [](HeldTextStream& stream) -> std::optional<std::string> {
             const std::optional<GeneratedPiece> piece = stream.next();
             return piece ? std::optional(piece->text) : std::nullopt;
           })
      .def("cancel", &HeldTextStream::cancel)
      .def("completion", &HeldTextStream::completion);
  nb::class_<HeldChatStream>(module, "HeldChatStream", "An answer that is being generated.")
      .def("next", &HeldChatStream::next)
      .def("cancel", &HeldChatStream::cancel)
      .def("completion", &HeldChatStream::completion);
  nb::class_<LoadedGenerator>(module, "LoadedGenerator", "A model that generates texts.")
      .def(nb::init<const std::string&, nb::dict, const nb::dict&, nb::object>(), nb::arg("model"), nb::arg("settings"),
           nb::arg("options"), nb::arg("progress").none())
      .def("close", &LoadedGenerator::close)
      .def("generate", &LoadedGenerator::generate, nb::arg("prompt"), nb::arg("settings"))
      .def("stream", &LoadedGenerator::stream, nb::arg("prompt"), nb::arg("settings"))
      .def("chat", &LoadedGenerator::chat, nb::arg("messages"), nb::arg("tools"), nb::arg("tool_choice"),
           nb::arg("template_values"), nb::arg("reasoning"), nb::arg("settings"))
      .def("stream_chat", &LoadedGenerator::stream_chat, nb::arg("messages"), nb::arg("tools"), nb::arg("tool_choice"),
           nb::arg("template_values"), nb::arg("reasoning"), nb::arg("settings"))
      .def("chat_prompt", &LoadedGenerator::chat_prompt, nb::arg("messages"), nb::arg("tools"),
           nb::arg("template_values"), nb::arg("reasoning"), nb::arg("add_generation_prompt"))
      .def(
          "memory_needed",
          [](const LoadedGenerator& generator, std::size_t tokens) {
            return generator.opened()->memory_needed(tokens);
          },
          nb::arg("tokens"))
      .def_prop_ro("has_chat_template",
                   [](const LoadedGenerator& generator) { return generator.opened()->has_chat_template(); })
      .def_prop_ro("context_length",
                   [](const LoadedGenerator& generator) { return generator.opened()->context_length(); })
      .def_prop_ro("verdict", [](const LoadedGenerator& generator) { return generator.opened()->verdict(); });
  module.def(
      "generation_memory",
      [](const std::string& model, std::size_t tokens, nb::dict settings) {
        const ModelOptions options = to_model_options(std::move(settings));
        const nb::gil_scoped_release released;
        return Generator::memory_of(model, tokens, options);
      },
      nb::arg("model"), nb::arg("tokens"), nb::arg("settings"));
}

}  // namespace gpux::python
