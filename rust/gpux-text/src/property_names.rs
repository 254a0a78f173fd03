//! Names of properties: which ones a pattern leaves, and what propertyNames says of them.

use llguidance::derivre::{RegexAst, RegexBuilder};
use llguidance::regex_to_lark;
use serde_json::Value;

use crate::regex_text;

/// Steps of comparing names with patterns. Beyond, names are taken to be left.
const MAX_STEPS: u64 = 100_000;

/// What propertyNames says.
pub enum Rule {
    All,
    Listed(Vec<String>),
    /// A regular expression.
    Pattern(String),
}

fn found(pattern: &str) -> RegexAst {
    RegexAst::SearchRegex(regex_to_lark(pattern, "dw"))
}

fn any_of(names: &[String]) -> Vec<RegexAst> {
    names.iter().map(|name| RegexAst::Literal(name.clone())).collect()
}

fn is_empty(ast: &RegexAst) -> bool {
    let mut builder = RegexBuilder::new();
    let Ok(expression) = builder.mk(ast) else { return false };
    builder.to_regex_limited(expression, MAX_STEPS).is_ok_and(|mut regex| regex.always_empty())
}

fn without(all: RegexAst, excluded: Vec<RegexAst>) -> RegexAst {
    match excluded.is_empty() {
        true => all,
        false => RegexAst::And(vec![all, RegexAst::Not(Box::new(RegexAst::Or(excluded)))]),
    }
}

/// Whether the pattern, which regex_text::for_strings() wrote, is found in no text but these.
pub fn are_all_among(pattern: &str, names: &[String]) -> bool {
    is_empty(&without(found(pattern), any_of(names)))
}

/// Those that the pattern is found in.
pub fn found_in<'a>(pattern: &str, names: &'a [String]) -> Vec<&'a String> {
    let mut builder = RegexBuilder::new();
    let Ok(expression) = builder.mk(&found(pattern)) else { return Vec::new() };
    let mut regex = builder.into_regex(expression);
    names.iter().filter(|name| regex.is_match(name)).collect()
}

/// Whether each text is one of the names, or a pattern is found in it.
pub fn is_none_left<'a>(patterns: impl Iterator<Item = &'a String>, names: &[String]) -> bool {
    let mut taken: Vec<RegexAst> = patterns.map(|pattern| found(pattern)).collect();
    if taken.is_empty() {
        return false;
    }
    taken.extend(any_of(names));
    is_empty(&without(RegexAst::Regex(regex_text::written_text()), taken))
}

/// The schema of names, which are always texts.
pub fn rule_of(schema: &Value) -> Result<Rule, String> {
    const ACCEPTED: &str = "accepted: the type string, with one of enum, const and pattern, or minLength and maxLength";
    let refuse = |key: &str| Err(format!("{key} is not supported here; {ACCEPTED}"));
    let map = match schema {
        Value::Bool(true) => return Ok(Rule::All),
        Value::Object(map) => map,
        _ => return Err(format!("it is no schema of names; {ACCEPTED}")),
    };
    let (mut rule, mut lengths) = (Rule::All, None);
    for (key, value) in map {
        let next = match (key.as_str(), value) {
            ("type", Value::String(name)) if name == "string" => continue,
            ("enum", Value::Array(names)) if names.iter().all(Value::is_string) => {
                Rule::Listed(names.iter().filter_map(Value::as_str).map(str::to_string).collect())
            }
            ("const", Value::String(name)) => Rule::Listed(vec![name.clone()]),
            ("pattern", Value::String(pattern)) => Rule::Pattern(pattern.clone()),
            ("minLength" | "maxLength", value) if value.as_u64().is_some_and(|count| count <= 1000) => {
                let (least, most) = lengths.get_or_insert((0, None));
                let count = value.as_u64().unwrap_or(0);
                if key == "minLength" {
                    *least = count;
                } else {
                    *most = Some(count);
                }
                continue;
            }
            _ if crate::json_schema::is_keyword(key) => return refuse(key),
            _ => continue,
        };
        if !matches!(rule, Rule::All) {
            return refuse(key);
        }
        rule = next;
    }
    match (rule, lengths) {
        (Rule::All, Some((least, most))) => {
            let most = most.map_or(String::new(), |most: u64| most.to_string());
            Ok(Rule::Pattern(format!("^(?s:.{{{least},{most}}})$")))
        }
        (rule, None) => Ok(rule),
        _ => refuse("a length next to another keyword"),
    }
}
