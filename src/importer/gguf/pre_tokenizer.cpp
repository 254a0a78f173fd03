#include "importer/gguf/pre_tokenizer.h"

#include <algorithm>
#include <array>

namespace gpux::importer::gguf {
namespace {

using Pattern = std::string_view;

// As the tokenizer.json of the models have them. llama.cpp writes some of them in another way, for its own reader of
// regular expressions.
constexpr std::array llama3{
    Pattern(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
            R"(\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array qwen2{
    Pattern(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
            R"(\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array qwen35{
    Pattern(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
            R"(\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array tekken{Pattern(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array gpt4o{Pattern(
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array seed_coder{
    Pattern(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
            R"(\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array digits{Pattern(R"(\p{N})")};
constexpr std::array falcon{Pattern(R"([\p{P}\$\+<=>\^~\|`]+)"),
                            Pattern(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"),
                            Pattern("[0-9][0-9][0-9]")};
constexpr std::array deepseek_llm{
    Pattern("[\\r\\n]"),
    Pattern(
        "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-"
        "ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-"
        "𐳲𑢠-𑣟𞤀-𞥃]+"),
    Pattern("\\s?[!-/:-~！-／：-～‘-‟　-。]+"),
    Pattern("\\s+$"),
    Pattern("[一-龥ࠀ-一가-퟿]+"),
    Pattern("\\p{N}+")};
constexpr std::array deepseek_coder{Pattern("[\\r\\n]"), Pattern("\\s?\\p{L}+"), Pattern("\\s?\\p{P}+"),
                                    Pattern("[一-龥ࠀ-一가-퟿]+"), Pattern("\\p{N}")};
constexpr std::array deepseek_v3{
    Pattern(R"(\p{N}{1,3})"), Pattern("[一-龥぀-ゟ゠-ヿ]+"),
    Pattern(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
            R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};

constexpr std::array table{
    PreTokenizer{"llama-bpe", llama3, false, true, true},
    PreTokenizer{"llama3", llama3, false, true, true},
    PreTokenizer{"llama-v3", llama3, false, true, true},
    PreTokenizer{"falcon3", llama3, false, true, true},
    PreTokenizer{"dbrx", llama3},
    PreTokenizer{"smaug-bpe", llama3},
    PreTokenizer{"qwen2", qwen2},
    PreTokenizer{"deepseek-r1-qwen", qwen2},
    PreTokenizer{"megrez", qwen2},
    PreTokenizer{"stablelm2", qwen2},
    PreTokenizer{"hunyuan", qwen2},
    PreTokenizer{"qwen35", qwen35},
    PreTokenizer{"tekken", tekken, false, true, true},
    PreTokenizer{"gpt-4o", gpt4o},
    PreTokenizer{"seed-coder", seed_coder},
    PreTokenizer{"gpt-2", {}, true},
    PreTokenizer{"phi-2", {}, true},
    PreTokenizer{"olmo", {}, true},
    PreTokenizer{"mpt", {}, true},
    PreTokenizer{"jais", {}, true},
    PreTokenizer{"trillion", {}, true},
    PreTokenizer{"granite-docling", {}, true},
    PreTokenizer{"smollm", digits, true},
    PreTokenizer{"starcoder", digits, true},
    PreTokenizer{"refact", digits, true},
    PreTokenizer{"command-r", digits, true},
    PreTokenizer{"codeshell", digits, true},
    PreTokenizer{"exaone", digits, true},
    PreTokenizer{"minerva-7b", digits, true},
    PreTokenizer{"falcon", falcon},
    PreTokenizer{"deepseek-llm", deepseek_llm},
    PreTokenizer{"deepseek-coder", deepseek_coder},
    PreTokenizer{"deepseek-v3", deepseek_v3},
    PreTokenizer{"hunyuan-dense", deepseek_v3},
};

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) noexcept {
  const auto* found = std::ranges::find(table, name, &PreTokenizer::name);
  return found == table.end() ? nullptr : found;
}

std::span<const PreTokenizer> pre_tokenizers() noexcept {
  return table;
}

}  // namespace gpux::importer::gguf
