//! Where a long text may be cut before it is tokenized, so that its first or last tokens stay exactly the same.

use serde::Deserialize;
use serde_json::Value;

/// The regular expressions of GPT-2, Llama 3 and Qwen 2, which end a word before a single space.
const WORD_EXPRESSIONS: [&str; 4] = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
];

/// Of tokenizer.json: without the vocabulary, which is most of it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    added_tokens: Value,
    normalizer: Value,
    pre_tokenizer: Value,
}

fn type_of(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

fn steps_of<'a>(step: &'a Value, name: &str) -> Vec<&'a Value> {
    step[name].as_array().map(|all| all.iter().collect()).unwrap_or_default()
}

/// Whether what it makes of the text before and behind a space between two words does not depend on the other side.
fn normalizer_is_local(step: &Value) -> bool {
    match type_of(step) {
        "Sequence" => steps_of(step, "normalizers").into_iter().all(normalizer_is_local),
        "Replace" => {
            let pattern = &step["pattern"];
            match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
                (Some(text), _) => !text.contains(char::is_whitespace),
                (_, Some(" {2,}")) => true,
                (_, Some(r"\s+")) => step["content"] == " ",
                _ => false,
            }
        }
        "BertNormalizer" | "NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase" | "Nmt" | "Precompiled" | "StripAccents"
        | "Strip" | "Prepend" => true,
        _ => step.is_null(),
    }
}

/// Whether each side is taken apart by itself; and whether the two words are never in one piece.
fn pre_tokenizer_splits(step: &Value) -> (bool, bool) {
    match type_of(step) {
        "Sequence" => steps_of(step, "pretokenizers")
            .into_iter()
            .map(pre_tokenizer_splits)
            .fold((true, false), |(local, splits), (one, other)| (local && one, splits || other)),
        "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit" => (true, true),
        "ByteLevel" => (true, step["use_regex"] != false),
        "Metaspace" => (true, step["split"] != false),
        "Punctuation" | "Digits" => (true, false),
        "Split" => {
            let known = step["pattern"]["Regex"].as_str().is_some_and(|regex| WORD_EXPRESSIONS.contains(&regex));
            (known, known)
        }
        _ => (false, false),
    }
}

/// Whether the tokens of a text before a space between two words are those of the whole text, and those behind it but
/// for the first word's, whatever the text. `json` is tokenizer.json.
pub fn can_cut(json: &[u8]) -> bool {
    let Ok(parts) = serde_json::from_slice::<Parts>(json) else { return false };
    let no_blank_in_added = parts
        .added_tokens
        .as_array()
        .into_iter()
        .flatten()
        .all(|token| token["content"].as_str().is_some_and(|content| !content.contains(char::is_whitespace)));
    no_blank_in_added
        && normalizer_is_local(&parts.normalizer)
        && pre_tokenizer_splits(&parts.pre_tokenizer) == (true, true)
}

/// Letters and digits that no normalizer joins with what stands beside them.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{24f}' | '\u{391}'..='\u{3a1}'
            | '\u{3a3}'..='\u{3ce}' | '\u{400}'..='\u{481}' | '\u{5d0}'..='\u{5ea}' | '\u{620}'..='\u{64a}'
            | '\u{904}'..='\u{939}' | '\u{e01}'..='\u{e30}' | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}'
            | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

fn is_boundary(text: &str, space: usize) -> bool {
    text.as_bytes()[space] == b' '
        && text[..space].chars().next_back().is_some_and(is_plain)
        && text[space + 1..].chars().next().is_some_and(is_plain)
}

/// The last space between two words in `from..to`.
pub fn last_boundary(text: &str, from: usize, to: usize) -> Option<usize> {
    (from..to.min(text.len())).rev().find(|at| is_boundary(text, *at))
}

/// The first one there.
pub fn first_boundary(text: &str, from: usize, to: usize) -> Option<usize> {
    (from..to.min(text.len())).find(|at| is_boundary(text, *at))
}
