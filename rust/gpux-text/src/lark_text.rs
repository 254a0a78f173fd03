//! Grammars as llguidance reads them, with the JSON schemas in them as json_schema.rs writes them.

use serde_json::Value;

use crate::json_schema;

/// Which tokens a grammar may name by their ids, as <[ID]>.
#[derive(Clone, Copy, PartialEq)]
pub enum NamedTokens {
    None,
    Any,
}

/// The grammar with each schema of a %json replaced, and those schemas as they were.
pub fn with_normalized_schemas(text: &str, tokens: NamedTokens) -> Result<(String, Vec<Value>), String> {
    let (mut result, mut schemas) = (String::with_capacity(text.len()), Vec::new());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '"' => quoted(rest, '"'),
            '/' if !rest.starts_with("//") => quoted(rest, '/'),
            '/' | '#' => rest.find('\n').unwrap_or(rest.len()),
            '%' => {
                let name = 1 + rest[1..].find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len() - 1);
                result.push_str(&rest[..name]);
                let (keyword, after) = rest.split_at(name);
                rest = after;
                let length = match keyword {
                    "%json" | "%llguidance" | "%regex" => json_length(after),
                    _ => 0,
                };
                if keyword == "%json" && length > 0 {
                    let within = |error| format!("the JSON schema of a %json: {error}");
                    let given = json_schema::parsed(&after[..length]).map_err(within)?;
                    let schema = json_schema::normalized(&given).map_err(within)?;
                    schemas.push(given);
                    // Errors further down name their line; a line's end after the schema would end the rule.
                    result.push('{');
                    result.extend(after[..length].chars().filter(|c| *c == '\n'));
                    result.push_str(&schema.to_string()[1..]);
                    rest = &after[length..];
                    continue;
                }
                length
            }
            'a'..='z' | '_' => {
                let name = rest.find(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '_' | '-')).unwrap_or(rest.len());
                check_attribute(&rest[..name], &rest[name..])?;
                name
            }
            '<' if tokens == NamedTokens::Any => token_length(rest)?,
            '<' => return Err("it has special tokens (<…>), which are not supported".to_string()),
            _ => next.len_utf8(),
        };
        result.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Ok((result, schemas))
}

/// Bytes of the token that the text begins with: <[ID]>.
fn token_length(text: &str) -> Result<usize, String> {
    let end = text.find('>').filter(|_| text.starts_with("<["));
    let id = end.and_then(|end| text[2..end].strip_suffix(']'));
    match (end, id) {
        (Some(end), Some(id)) if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) => Ok(end + 1),
        _ => Err("it has a token that is not written as <[ID]>".to_string()),
    }
}

/// Attributes of a rule that say how tokens are chosen, or hide what was generated.
fn check_attribute(name: &str, after: &str) -> Result<(), String> {
    let is_attribute = after.trim_start_matches([' ', '\t']).starts_with('=');
    match name {
        "stop" | "stop_capture" | "max_tokens" | "temperature" if is_attribute => {
            Err(format!("it has the attribute {name}=, which is not supported"))
        }
        _ => Ok(()),
    }
}

/// Bytes up to the end of what begins with `quote`, or of its first character if it has no end.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' if !is_escaped && quote == '"' => break,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    1
}

/// Bytes of the JSON value that the text begins with; 0 if there is none.
fn json_length(text: &str) -> usize {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => 0,
    }
}
