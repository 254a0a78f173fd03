#include "generation/tool_call_formats.h"

#include <algorithm>
#include <array>

namespace gpux::generation {
namespace {

using Marks = std::string_view;

// A call as JSON.
constexpr CallWriting json_writing{
    .begin = R"({"name": ")", .arguments = R"(", "arguments": )", .end = "}", .separator = "; "};
constexpr CallWriting hermes_writing{.begin = "<tool_call>\n{\"name\": \"",
                                     .arguments = "\", \"arguments\": ",
                                     .end = "}\n</tool_call>",
                                     .separator = "\n"};

constexpr CallWriting listed(std::string_view section_begin, std::string_view section_end) {
  return {.section_begin = section_begin,
          .begin = R"({"name": ")",
          .arguments = R"(", "arguments": )",
          .end = "}",
          .separator = ", ",
          .section_end = section_end};
}

constexpr CallElements parameter_elements{
    "<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>",
};

constexpr std::array harmony_marks{Marks("<|channel|>"), Marks("<|message|>")};
constexpr std::array harmony_markers{Marks("<|start|>"), Marks("<|channel|>"),   Marks("<|message|>"),
                                     Marks("<|end|>"),   Marks("<|constrain|>"), Marks("<|call|>"),
                                     Marks("<|return|>")};

constexpr std::array mistral_named_marks{Marks("[TOOL_CALLS]"), Marks("[ARGS]")};
constexpr std::array mistral_marks{Marks("[TOOL_CALLS]")};
constexpr std::array mistral_blocks{CallBlock{"[TOOL_CALLS]", "", CallBody::named_json}};
constexpr std::array mistral_within{Marks("[ARGS]"), Marks("[CALL_ID]")};

constexpr std::array kimi_marks{Marks("<|tool_call_argument_begin|>")};
constexpr std::array kimi_blocks{CallBlock{"<|tool_call_begin|>", "<|tool_call_end|>", CallBody::named}};
constexpr std::array kimi_around{Marks("<|tool_calls_section_begin|>"), Marks("<|tool_calls_section_end|>")};

constexpr std::array deepseek_v3_marks{Marks("<｜tool▁sep｜>"), Marks("```json")};
constexpr std::array deepseek_marks{Marks("<｜tool▁sep｜>")};
constexpr std::array deepseek_blocks{CallBlock{"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", CallBody::named}};
constexpr std::array deepseek_around{Marks("<｜tool▁calls▁begin｜>"), Marks("<｜tool▁calls▁end｜>")};

constexpr std::array command_marks{Marks("<|START_ACTION|>")};
constexpr std::array command_blocks{CallBlock{"<|START_ACTION|>", "<|END_ACTION|>"}};

constexpr std::array lfm_marks{Marks("<|tool_call_start|>")};
constexpr std::array lfm_blocks{CallBlock{"<|tool_call_start|>", "<|tool_call_end|>", CallBody::python}};

constexpr std::array phi_marks{Marks("<|tool_call|>")};
constexpr std::array functools_marks{Marks("functools[")};
constexpr std::array phi_blocks{CallBlock{"<|tool_call|>", "<|/tool_call|>"}, CallBlock{"functools", ""}};

constexpr std::array minimax_marks{Marks("<invoke name="), Marks("minimax:tool_call")};
constexpr std::array minimax_blocks{CallBlock{"<minimax:tool_call>", "</minimax:tool_call>", CallBody::elements}};

constexpr std::array seed_marks{Marks("<function="), Marks("seed:tool_call")};
constexpr std::array seed_blocks{CallBlock{"<seed:tool_call>", "</seed:tool_call>", CallBody::elements}};

constexpr std::array coder_marks{Marks("<function="), Marks("<parameter=")};
// Qwen3-Coder leaves out the outer markers now and then.
constexpr std::array coder_blocks{CallBlock{"<tool_call>", "</tool_call>", CallBody::elements},
                                  CallBlock{"<function=", "</function>", CallBody::elements, true}};

constexpr std::array glm_marks{Marks("<arg_key>"), Marks("<tool_call>")};
constexpr std::array glm_blocks{CallBlock{"<tool_call>", "</tool_call>", CallBody::elements}};

constexpr std::array apriel_marks{Marks("<tool_calls>[")};
constexpr std::array apriel_blocks{CallBlock{"<tool_calls>", "</tool_calls>"}};

constexpr std::array hermes_marks{Marks("<tool_call>")};
constexpr std::array hermes_blocks{CallBlock{"<tool_call>", "</tool_call>"}};

constexpr std::array llama_marks{Marks("<|python_tag|>")};
constexpr std::array llama_tool_marks{Marks("<|start_header_id|>ipython")};
constexpr std::array llama_blocks{CallBlock{"<|python_tag|>", "", CallBody::python}};

constexpr std::array gemma_marks{Marks("<start_of_turn>")};
constexpr std::array gemma_blocks{CallBlock{"```tool_code", "```", CallBody::python},
                                  CallBlock{"```tool_call", "```", CallBody::python}, CallBlock{"```json", "```"}};

constexpr CallWriting llama_writing{
    .begin = R"({"name": ")", .arguments = R"(", "parameters": )", .end = "}", .separator = "; "};

// Forms with markers of their own come before those whose markers others have, too.
constexpr auto formats = std::to_array<ToolCallFormat>({
    {.style = ToolCallStyle::harmony,
     .name = "harmony",
     .template_marks = harmony_marks,
     .blocks = {},
     .within = harmony_markers,
     .writing = {.begin = "<|channel|>commentary to=functions.",
                 .arguments = " <|constrain|>json<|message|>",
                 .allows_several = false}},
    {.style = ToolCallStyle::mistral_named,
     .name = "mistral_named",
     .template_marks = mistral_named_marks,
     .blocks = mistral_blocks,
     .within = mistral_within,
     .writing = {.begin = "[TOOL_CALLS]", .arguments = "[ARGS]"}},
    {.style = ToolCallStyle::mistral,
     .name = "mistral",
     .template_marks = mistral_marks,
     .blocks = mistral_blocks,
     .within = mistral_within,
     .writing = listed("[TOOL_CALLS] [", "]")},
    {.style = ToolCallStyle::kimi,
     .name = "kimi",
     .template_marks = kimi_marks,
     .blocks = kimi_blocks,
     .around = kimi_around,
     .separator = "<|tool_call_argument_begin|>",
     .writing = {.section_begin = "<|tool_calls_section_begin|>",
                 .begin = "<|tool_call_begin|>functions.",
                 .arguments = ":#<|tool_call_argument_begin|>",
                 .end = "<|tool_call_end|>",
                 .section_end = "<|tool_calls_section_end|>"}},
    {.style = ToolCallStyle::deepseek_v3,
     .name = "deepseek_v3",
     .template_marks = deepseek_v3_marks,
     .blocks = deepseek_blocks,
     .around = deepseek_around,
     .separator = "<｜tool▁sep｜>",
     .writing = {.section_begin = "<｜tool▁calls▁begin｜>",
                 .begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                 .arguments = "\n```json\n",
                 .end = "\n```<｜tool▁call▁end｜>",
                 .separator = "\n",
                 .section_end = "<｜tool▁calls▁end｜>"}},
    {.style = ToolCallStyle::deepseek,
     .name = "deepseek",
     .template_marks = deepseek_marks,
     .blocks = deepseek_blocks,
     .around = deepseek_around,
     .separator = "<｜tool▁sep｜>",
     .writing = {.section_begin = "<｜tool▁calls▁begin｜>",
                 .begin = "<｜tool▁call▁begin｜>",
                 .arguments = "<｜tool▁sep｜>",
                 .end = "<｜tool▁call▁end｜>",
                 .section_end = "<｜tool▁calls▁end｜>"}},
    {.style = ToolCallStyle::command,
     .name = "command",
     .template_marks = command_marks,
     .blocks = command_blocks,
     .writing = {.section_begin = "<|START_ACTION|>[\n    ",
                 .begin = R"({"tool_call_id": "#", "tool_name": ")",
                 .arguments = R"(", "parameters": )",
                 .end = "}",
                 .separator = ",\n    ",
                 .section_end = "\n]<|END_ACTION|>"}},
    {.style = ToolCallStyle::lfm,
     .name = "lfm",
     .template_marks = lfm_marks,
     .blocks = lfm_blocks,
     .writing = listed("<|tool_call_start|>[", "]<|tool_call_end|>")},
    {.style = ToolCallStyle::phi,
     .name = "phi",
     .template_marks = phi_marks,
     .blocks = phi_blocks,
     .writing = listed("<|tool_call|>[", "]<|/tool_call|>")},
    {.style = ToolCallStyle::phi,
     .name = "phi",
     .template_marks = functools_marks,
     .blocks = phi_blocks,
     .writing = listed("<|tool_call|>[", "]<|/tool_call|>")},
    {.style = ToolCallStyle::minimax,
     .name = "minimax",
     .template_marks = minimax_marks,
     .blocks = minimax_blocks,
     .elements = {"<invoke name=\"", "\">", "<parameter name=\"", "\">", "", "</parameter>", "</invoke>"},
     .writing = {.begin = "<minimax:tool_call>\n{\"name\": \"",
                 .arguments = "\", \"arguments\": ",
                 .end = "}\n</minimax:tool_call>",
                 .separator = "\n"}},
    {.style = ToolCallStyle::seed,
     .name = "seed",
     .template_marks = seed_marks,
     .blocks = seed_blocks,
     .elements = parameter_elements,
     .writing = {.begin = "<seed:tool_call>\n{\"name\": \"",
                 .arguments = "\", \"arguments\": ",
                 .end = "}\n</seed:tool_call>",
                 .separator = "\n"}},
    {.style = ToolCallStyle::coder,
     .name = "coder",
     .template_marks = coder_marks,
     .blocks = coder_blocks,
     .elements = parameter_elements,
     .writing = hermes_writing},
    {.style = ToolCallStyle::glm,
     .name = "glm",
     .template_marks = glm_marks,
     .blocks = glm_blocks,
     .elements = {"", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", ""},
     .writing = hermes_writing},
    {.style = ToolCallStyle::apriel,
     .name = "apriel",
     .template_marks = apriel_marks,
     .blocks = apriel_blocks,
     .writing = listed("<tool_calls>[", "]</tool_calls>")},
    {.style = ToolCallStyle::hermes,
     .name = "hermes",
     .template_marks = hermes_marks,
     .blocks = hermes_blocks,
     .writing = hermes_writing},
    {.style = ToolCallStyle::llama,
     .name = "llama",
     .template_marks = llama_marks,
     .blocks = llama_blocks,
     .begins_with_json = true,
     .writing = llama_writing},
    {.style = ToolCallStyle::llama,
     .name = "llama",
     .template_marks = llama_tool_marks,
     .blocks = llama_blocks,
     .begins_with_json = true,
     .writing = llama_writing},
    {.style = ToolCallStyle::gemma,
     .name = "gemma",
     .template_marks = gemma_marks,
     .blocks = gemma_blocks,
     .begins_with_json = true,
     .writing = json_writing},
});

constexpr ToolCallFormat no_format{.style = ToolCallStyle::none, .name = "none", .writing = json_writing};

}  // namespace

const ToolCallFormat& tool_call_format(ToolCallStyle style) noexcept {
  const auto* const found = std::ranges::find(formats, style, &ToolCallFormat::style);
  return found == formats.end() ? no_format : *found;
}

std::span<const ToolCallFormat> tool_call_formats() noexcept {
  return formats;
}

}  // namespace gpux::generation
