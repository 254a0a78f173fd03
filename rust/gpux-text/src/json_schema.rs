//! JSON schemas as llguidance reads them exactly: what it would ignore, or take for less than it says, is refused here.

use std::collections::{HashMap, HashSet};

use serde_json::{json, Map, Value};

use crate::{property_names, regex_text};

/// Schemas in a document, with those that are copied into a oneOf.
const MAX_SCHEMAS: usize = 20_000;
const MAX_OPTIONAL_PROPERTIES: usize = 2_000;
/// Levels of all definitions together: llguidance's compiler descends through them.
const MAX_LEVELS: usize = 4_000;
const MAX_REFERENCES: usize = 16;
/// Patterns of properties, times names: beyond, it is not tried whether names are left.
const MAX_NAMES_COMPARED: usize = 20_000;
/// Numbers of items, properties and characters.
const MAX_COUNT: u64 = 1_000_000;
/// Above, integers are not float64 numbers.
const MAX_NUMBER: f64 = 9007199254740991.0;
const LEAST_NUMBER: f64 = 1e-30;

const APPLICATORS: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "const", "enum"];
const SUPPORTED: [&str; 26] = [
    "type", "const", "enum", "anyOf", "oneOf", "allOf", "$ref", "properties", "required", "additionalProperties",
    "patternProperties", "minProperties", "maxProperties", "items", "prefixItems", "minItems", "maxItems", "minLength",
    "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
];
/// Keywords that say what fits, and are not enforced. All others are annotations, as JSON Schema has it.
const UNSUPPORTED: [&str; 20] = [
    "$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentRequired", "dependentSchemas", "disallow",
    "divisibleBy", "else", "extends", "if", "maxContains", "minContains", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "x-guidance",
];
const ANNOTATIONS: [&str; 16] = [
    "$comment", "$defs", "$id", "$schema", "contentEncoding", "contentMediaType", "default", "definitions",
    "deprecated", "description", "discriminator", "example", "examples", "readOnly", "title", "writeOnly",
];
const DRAFTS: [&str; 5] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
];
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];
/// The formats of JSON Schema that are not enforced. All others are annotations.
const UNSUPPORTED_FORMATS: [&str; 9] = [
    "idn-email", "idn-hostname", "iri", "iri-reference", "json-pointer", "regex", "relative-json-pointer",
    "uri-reference", "uri-template",
];

type Result<T> = std::result::Result<T, String>;

/// What llguidance's own options would be: no escapes of characters that need none, so that a property has one
/// spelling; and white space that ends.
pub fn options() -> Value {
    json!({ "whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,40}", "json_allowed_escapes": "nrbtf\\\"" })
}

pub fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))
}

/// The schema for llguidance, with the options above; an error names the place as a JSON pointer.
pub fn normalized(root: &Value) -> Result<Value> {
    normalized_part(root, root, "#")
}

/// The schema `part` of `root`, at `place`, alone.
pub fn normalized_part(root: &Value, part: &Value, place: &str) -> Result<Value> {
    let mut normalizer = Normalizer {
        root,
        references: HashMap::new(),
        pending: Vec::new(),
        schemas: 0,
        levels: 0,
        copying: Vec::new(),
    };
    let mut schema = match normalizer.schema(part, place, 0)? {
        Value::Object(map) => map,
        Value::Bool(true) => Map::new(),
        _ => return Err("the schema is false: no text fits it".to_string()),
    };
    let mut definitions = Map::new();
    while let Some((name, target, place)) = normalizer.pending.pop() {
        let level = normalizer.levels;
        definitions.insert(name, normalizer.schema(target, &place, level)?);
    }
    if !definitions.is_empty() {
        schema.insert("$defs".to_string(), Value::Object(definitions));
    }
    schema.insert("x-guidance".to_string(), options());
    Ok(Value::Object(schema))
}

/// The schemas that the schema at `place` applies to a text or to its parts, with their places.
pub fn parts<'a>(root: &'a Value, schema: &'a Value, place: &str) -> Vec<(String, &'a Value)> {
    let mut parts = Vec::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        let inside = step(place, key);
        match (key.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(schemas)) => {
                parts.extend(schemas.iter().map(|(name, schema)| (step(&inside, name), schema)));
            }
            ("items" | "prefixItems" | "allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                parts.extend(schemas.iter().enumerate().map(|(i, schema)| (format!("{inside}/{i}"), schema)));
            }
            ("items" | "additionalItems" | "additionalProperties", schema) => parts.push((inside, schema)),
            ("$ref", _) => {
                parts.extend(pointed_to(root, value).map(|(pointer, target)| (format!("#{pointer}"), target)));
            }
            _ => {}
        }
    }
    parts
}

/// The schemas in `root` that have so many alternatives, with their places.
pub fn parts_with_alternatives<'a>(root: &'a Value, count: usize) -> Vec<(String, &'a Value)> {
    let mut all = vec![("#".to_string(), root)];
    let mut known = HashSet::from(["#".to_string()]);
    let mut next = 0;
    while next < all.len() {
        let inner = parts(root, all[next].1, &all[next].0);
        all.extend(inner.into_iter().filter(|(place, _)| known.insert(place.clone())));
        next += 1;
    }
    let alternatives = |part: &Value, key: &str| part.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    all.retain(|(_, part)| alternatives(part, "anyOf").max(alternatives(part, "oneOf")) >= count);
    all
}

struct Normalizer<'a> {
    root: &'a Value,
    /// The names that definitions have, by the pointers that lead to them.
    references: HashMap<String, String>,
    pending: Vec<(String, &'a Value, String)>,
    schemas: usize,
    levels: usize,
    /// Pointers of the schemas that are being copied into a oneOf.
    copying: Vec<String>,
}

fn excerpt(value: &Value) -> String {
    const MAX_CHARACTERS: usize = 40;
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn refuse<T>(place: &str, key: &str, value: &Value, accepted: &str) -> Result<T> {
    Err(format!("at {place}: {key} is {}; accepted: {accepted}", excerpt(value)))
}

/// A property's name in a JSON pointer.
fn step(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn count(value: &Value, place: &str, key: &str) -> Result<u64> {
    match value.as_u64() {
        Some(count) if count <= MAX_COUNT => Ok(count),
        _ => refuse(place, key, value, &format!("0 to {MAX_COUNT}")),
    }
}

/// Of other sizes llguidance has no exact ranges.
fn number(value: &Value, place: &str, key: &str) -> Result<()> {
    let Some(number) = value.as_f64() else { return refuse(place, key, value, "a number") };
    let size = number.abs();
    match size == 0.0 || (LEAST_NUMBER..=MAX_NUMBER).contains(&size) {
        true => Ok(()),
        false => refuse(place, key, value, "0, and numbers of a size from 1e-30 to 2^53 - 1"),
    }
}

/// A bound beyond the integers that all readers of JSON hold exactly becomes the last one of those: what is written
/// then is within both.
fn bound(value: &Value, place: &str, key: &str) -> Result<Value> {
    let outermost = if key.ends_with("inimum") { -MAX_NUMBER } else { MAX_NUMBER };
    if value.as_f64().is_some_and(|number| number.abs() > MAX_NUMBER && number.signum() == outermost.signum()) {
        return Ok(json!(outermost));
    }
    number(value, place, key)?;
    Ok(value.clone())
}

/// Whether the name and the keyword differ in case, or in one letter that is missing, added, changed, or exchanged with
/// the next one.
fn is_misspelt(name: &str, keyword: &str) -> bool {
    let (name, keyword) = (name.to_lowercase(), keyword.to_lowercase());
    let (mut left, mut right) = (name.as_bytes(), keyword.as_bytes());
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    (left, right) = (&left[common..], &right[common..]);
    let common = left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| a == b).count();
    (left, right) = (&left[..left.len() - common], &right[..right.len() - common]);
    match (left, right) {
        ([a, b], [c, d]) => a == d && b == c,
        _ => left.len() <= 1 && right.len() <= 1,
    }
}

/// Whether the name is that of a keyword that says what fits.
pub fn is_keyword(name: &str) -> bool {
    SUPPORTED.contains(&name) || UNSUPPORTED.contains(&name)
}

/// Whether all values fit the schema.
fn fits_all(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => !map.keys().any(|key| is_keyword(key)),
        other => other == &Value::Bool(true),
    }
}

/// Where "$ref" leads to, with its JSON pointer.
fn pointed_to<'a>(root: &'a Value, reference: &Value) -> Option<(String, &'a Value)> {
    let pointer = percent_decoded(reference.as_str()?.strip_prefix('#')?);
    root.pointer(&pointer).map(|target| (pointer, target))
}

/// A value of const or enum.
fn constant(value: &Value, place: &str, key: &str) -> Result<()> {
    match value {
        Value::Number(_) => number(value, place, key),
        Value::String(text) if text.chars().any(regex_text::is_unwritten) => {
            refuse(place, key, value, "texts without control characters but \\b, \\f, \\n, \\r and \\t")
        }
        Value::Array(items) => items.iter().try_for_each(|item| constant(item, place, key)),
        Value::Object(map) => map.values().try_for_each(|item| constant(item, place, key)),
        _ => Ok(()),
    }
}

/// What gpux takes a date for: llguidance's has a 29 February each year, and a 60th second.
fn own_format(name: &str) -> Option<String> {
    const YEAR: &str = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
    const LEAP_YEAR: &str =
        "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
    const DAY: &str = "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|\
                       02-(?:0[1-9]|1[0-9]|2[0-8]))";
    const TIME: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?\
                        (?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
    let date = format!("(?:{YEAR}-{DAY}|{LEAP_YEAR}-02-29)");
    match name {
        "date" => Some(format!("^{date}$")),
        "time" => Some(format!("^{TIME}$")),
        "date-time" => Some(format!("^{date}[tT]{TIME}$")),
        _ => None,
    }
}

impl<'a> Normalizer<'a> {
    fn schema(&mut self, value: &'a Value, place: &str, level: usize) -> Result<Value> {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS {
            return Err(format!("it has more than {MAX_SCHEMAS} schemas"));
        }
        self.levels = self.levels.max(level + 1);
        if self.levels > MAX_LEVELS {
            return Err(format!("its definitions have more than {MAX_LEVELS} levels"));
        }
        match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::Object(map) => self.object(map, place, level),
            _ => Err(format!("at {place}: a schema is {}; accepted: an object, true or false", excerpt(value))),
        }
    }

    /// Keywords that llguidance reads together become neighbours: it reads those between two applicators alone.
    fn object(&mut self, map: &'a Map<String, Value>, place: &str, level: usize) -> Result<Value> {
        let (mut simple, mut applied) = (Map::new(), Map::new());
        let mut first_is_applied = None;
        for (key, value) in map {
            if self.is_annotation(key, value, place)? {
                continue;
            }
            let is_applied = APPLICATORS.contains(&key.as_str());
            let result = self.keyword(map, key, value, &step(place, key), level)?;
            let Some(result) = result else { continue };
            if key != "type" {
                first_is_applied.get_or_insert(is_applied);
            }
            let target = if is_applied { &mut applied } else { &mut simple };
            target.insert(key.clone(), result);
        }
        if map.get("not").is_some_and(fits_all) {
            return Ok(Value::Bool(false));
        }
        self.finish_arrays(map, &mut simple, place)?;
        self.finish_property_names(map, &mut simple, place)?;
        finish_patterns(&mut simple);
        finish_types(map, &mut simple);
        finish_formats(&mut simple, &mut applied);
        finish_ranges(&mut simple, &mut applied);
        check_names_that_repeat(map, place)?;
        check_optional_properties(map, place)?;
        let (mut first, second) = if first_is_applied == Some(true) { (applied, simple) } else { (simple, applied) };
        first.extend(second);
        with_dependents(map, first, place)
    }

    fn is_annotation(&self, key: &str, value: &Value, place: &str) -> Result<bool> {
        if key.starts_with("x-") && key != "x-guidance" {
            return Ok(true);
        }
        if !ANNOTATIONS.contains(&key) {
            return Ok(false);
        }
        match key {
            "$schema" => {
                let is_known = |text: &str| DRAFTS.contains(&text.trim_end_matches('#'));
                if !value.as_str().is_some_and(is_known) {
                    return refuse(place, key, value, &DRAFTS.join(", "));
                }
            }
            // It would change what references below it mean.
            "$id" if place != "#" => return Err(format!("at {place}: $id is accepted at the root only")),
            _ => {}
        }
        Ok(true)
    }

    /// The keyword's value for llguidance; none where it says nothing.
    fn keyword(
        &mut self,
        map: &'a Map<String, Value>,
        key: &str,
        value: &'a Value,
        place: &str,
        level: usize,
    ) -> Result<Option<Value>> {
        let result = match key {
            "type" => {
                let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
                let is_good = match value {
                    Value::Array(names) => !names.is_empty() && names.iter().all(is_type),
                    _ => is_type(value),
                };
                if !is_good {
                    return refuse(place, key, value, &format!("{}, or a list of them", TYPES.join(", ")));
                }
                value.clone()
            }
            "properties" => self.named(key, value, place, level, false)?,
            "patternProperties" => self.named(key, value, place, level, true)?,
            "additionalProperties" => self.schema(value, place, level + 1)?,
            "required" => {
                let is_good = value.as_array().is_some_and(|names| names.iter().all(Value::is_string));
                if !is_good {
                    return refuse(place, key, value, "a list of names");
                }
                value.clone()
            }
            "items" if value.is_array() => self.listed(key, value, place, level)?,
            "items" => self.schema(value, place, level + 1)?,
            "prefixItems" | "allOf" | "anyOf" => self.listed(key, value, place, level)?,
            "oneOf" => self.one_of(value, place, level)?,
            "additionalItems" => {
                if !map.get("items").is_some_and(Value::is_array) {
                    return Err(format!("at {place}: additionalItems is accepted where items is a list of schemas"));
                }
                self.schema(value, place, level + 1)?
            }
            "const" => {
                constant(value, place, key)?;
                value.clone()
            }
            "enum" => {
                if !value.as_array().is_some_and(|values| !values.is_empty()) {
                    return refuse(place, key, value, "a list of at least one value");
                }
                constant(value, place, key)?;
                value.clone()
            }
            "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minLength" | "maxLength" => {
                json!(count(value, place, key)?)
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => bound(value, place, key)?,
            "multipleOf" => {
                number(value, place, key)?;
                if value.as_f64().is_none_or(|number| number <= 0.0) {
                    return refuse(place, key, value, "a number above 0");
                }
                value.clone()
            }
            "pattern" => match value.as_str() {
                Some(text) => json!(regex_text::for_strings(text).map_err(|error| format!("at {place}: {error}"))?),
                None => return refuse(place, key, value, "a regular expression"),
            },
            "format" => match value.as_str() {
                Some(name) if FORMATS.contains(&name) => value.clone(),
                Some(name) if !UNSUPPORTED_FORMATS.contains(&name) => return Ok(None),
                _ => {
                    let accepted = format!("{}, and names that JSON Schema does not have", FORMATS.join(", "));
                    return refuse(place, key, value, &accepted);
                }
            },
            "$ref" => {
                let (pointer, target) = self.target(value, place)?;
                json!(self.reference(pointer, target))
            }
            "uniqueItems" if value == &Value::Bool(false) => return Ok(None),
            "not" if value == &Value::Bool(false) || fits_all(value) => return Ok(None),
            // finish_property_names() and with_dependents() read them.
            "propertyNames" | "dependentRequired" => return Ok(None),
            "nullable" => match value {
                Value::Bool(_) => return Ok(None),
                _ => return refuse(place, key, value, "true or false"),
            },
            _ if UNSUPPORTED.contains(&key) => {
                return Err(format!("at {place}: the keyword {key} is not supported; accepted: {}", SUPPORTED.join(", ")))
            }
            _ => {
                if let Some(meant) = SUPPORTED.iter().find(|keyword| is_misspelt(key, keyword)) {
                    let shown: String = key.chars().take(64).collect();
                    return Err(format!("at {place}: the keyword {shown} is unknown; is {meant} meant?"));
                }
                return Ok(None);
            }
        };
        Ok(Some(result))
    }

    fn named(&mut self, key: &str, value: &'a Value, place: &str, level: usize, has_patterns: bool) -> Result<Value> {
        let Some(map) = value.as_object() else { return refuse(place, key, value, "an object of schemas") };
        let mut schemas = Map::new();
        for (name, schema) in map {
            let inside = step(place, name);
            let schema = self.schema(schema, &inside, level + 1)?;
            let name = match has_patterns {
                true => regex_text::for_strings(name).map_err(|error| format!("at {inside}: {error}"))?,
                false => name.clone(),
            };
            if schemas.insert(name, schema).is_some() {
                return Err(format!("at {inside}: this pattern is there twice"));
            }
        }
        Ok(Value::Object(schemas))
    }

    fn listed(&mut self, key: &str, value: &'a Value, place: &str, level: usize) -> Result<Value> {
        let Some(list) = value.as_array().filter(|list| !list.is_empty() || matches!(key, "items" | "prefixItems"))
        else {
            return refuse(place, key, value, "a list of at least one schema");
        };
        let schemas = list.iter().enumerate().map(|(i, item)| self.schema(item, &format!("{place}/{i}"), level + 1));
        Ok(Value::Array(schemas.collect::<Result<Vec<_>>>()?))
    }

    /// References become copies of what they mean: llguidance does not look behind them for what tells schemas apart.
    fn one_of(&mut self, value: &'a Value, place: &str, level: usize) -> Result<Value> {
        let Some(list) = value.as_array().filter(|list| !list.is_empty()) else {
            return refuse(place, "oneOf", value, "a list of at least one schema");
        };
        let mut schemas = Vec::new();
        for (i, item) in list.iter().enumerate() {
            let place = format!("{place}/{i}");
            let before = self.copying.len();
            let copied = self.behind_references(item, &place)?;
            schemas.push(self.schema(copied, &place, level + 1)?);
            self.copying.truncate(before);
        }
        Ok(Value::Array(schemas))
    }

    fn behind_references(&mut self, mut item: &'a Value, place: &str) -> Result<&'a Value> {
        for _ in 0..MAX_REFERENCES {
            let Some(map) = item.as_object() else { break };
            let Some(reference) = map.get("$ref").filter(|_| map.keys().all(|key| key == "$ref" || !is_keyword(key)))
            else {
                break;
            };
            let (pointer, target) = self.target(reference, place)?;
            if self.copying.contains(&pointer) {
                break;
            }
            self.copying.push(pointer);
            item = target;
        }
        Ok(item)
    }

    /// The reference's pointer and what it leads to.
    fn target(&self, value: &Value, place: &str) -> Result<(String, &'a Value)> {
        let accepted = "\"#\", or a JSON pointer into this schema, as \"#/$defs/name\"";
        let Some(pointer) = value.as_str().and_then(|text| text.strip_prefix('#')) else {
            return refuse(place, "$ref", value, accepted);
        };
        let pointer = percent_decoded(pointer);
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return refuse(place, "$ref", value, accepted);
        }
        match pointed_to(self.root, value) {
            Some(found) => Ok(found),
            None => Err(format!("at {place}: $ref is {}, and there is nothing", excerpt(value))),
        }
    }

    fn reference(&mut self, pointer: String, target: &'a Value) -> String {
        if pointer.is_empty() {
            return "#".to_string();
        }
        let place = format!("#{pointer}");
        let next = self.references.len().to_string();
        let name = self.references.entry(pointer).or_insert_with(|| {
            self.pending.push((next.clone(), target, place));
            next
        });
        format!("#/$defs/{name}")
    }

    /// Names that are listed become properties, and those with a pattern the only ones.
    fn finish_property_names(
        &mut self,
        map: &'a Map<String, Value>,
        simple: &mut Map<String, Value>,
        place: &str,
    ) -> Result<()> {
        let key = "propertyNames";
        let Some(given) = map.get(key) else { return Ok(()) };
        let place = step(place, key);
        let before = self.copying.len();
        let names = self.behind_references(given, &place)?;
        self.copying.truncate(before);
        let rule = property_names::rule_of(names).map_err(|error| format!("at {place}: {error}"))?;
        let has = |key: &str| map.get(key).and_then(Value::as_object).is_some_and(|names| !names.is_empty());
        let is_alone = !has("properties") && !has("patternProperties");
        match rule {
            property_names::Rule::All => return Ok(()),
            _ if !is_alone => {
                let why = "next to properties or patternProperties accepts any text";
                return Err(format!("at {place}: {key} {why}; it is {}", excerpt(given)));
            }
            property_names::Rule::Listed(names) => {
                let value = match (simple.get("additionalProperties"), map.get("additionalProperties")) {
                    (Some(Value::Object(_)), Some(target)) => {
                        let pointer = format!("{}/additionalProperties", &place[1..place.len() - key.len() - 1]);
                        json!({ "$ref": self.reference(pointer, target) })
                    }
                    (value, _) => value.cloned().unwrap_or(Value::Bool(true)),
                };
                let properties = names.into_iter().map(|name| (name, value.clone())).collect();
                simple.insert("properties".to_string(), Value::Object(properties));
            }
            property_names::Rule::Pattern(pattern) => {
                let pattern = regex_text::for_strings(&pattern).map_err(|error| format!("at {place}: {error}"))?;
                let value = simple.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
                simple.insert("patternProperties".to_string(), json!({ pattern: value }));
            }
        }
        simple.insert("additionalProperties".to_string(), Value::Bool(false));
        Ok(())
    }

    /// A list of items is what prefixItems are since 2020.
    fn finish_arrays(&self, map: &Map<String, Value>, simple: &mut Map<String, Value>, place: &str) -> Result<()> {
        if !map.get("items").is_some_and(Value::is_array) {
            return Ok(());
        }
        if map.contains_key("prefixItems") {
            return Err(format!("at {place}: items is a list of schemas next to prefixItems; accepted: one schema"));
        }
        let rest = simple.remove("additionalItems");
        if let Some(prefix) = simple.insert("items".to_string(), rest.unwrap_or(Value::Bool(true))) {
            simple.insert("prefixItems".to_string(), prefix);
        }
        Ok(())
    }
}

/// What OpenAPI 3.0 has for the type null.
fn finish_types(map: &Map<String, Value>, simple: &mut Map<String, Value>) {
    if map.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    let Some(types) = simple.get_mut("type") else { return };
    let mut names = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
    if !names.contains(&json!("null")) {
        names.push(json!("null"));
    }
    *types = Value::Array(names);
}

/// One schema for each choice of the properties in dependentRequired: the property is not there, or those that it needs
/// are, too.
fn with_dependents(map: &Map<String, Value>, schema: Map<String, Value>, place: &str) -> Result<Value> {
    const MAX_DEPENDENTS: usize = 4;
    let key = "dependentRequired";
    let Some(value) = map.get(key) else { return Ok(Value::Object(schema)) };
    let place_of = step(place, key);
    let Some(all) = value.as_object() else { return refuse(&place_of, key, value, "an object of lists of names") };
    if all.len() > MAX_DEPENDENTS {
        return Err(format!("at {place_of}: it has {} properties; accepted: up to {MAX_DEPENDENTS}", all.len()));
    }
    if map.get("patternProperties").and_then(Value::as_object).is_some_and(|patterns| !patterns.is_empty()) {
        return Err(format!("at {place_of}: next to patternProperties it is not supported"));
    }
    let mut choices = vec![schema];
    for (name, needed) in all {
        let names: Option<Vec<&str>> = needed.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        let Some(names) = names else { return refuse(&step(&place_of, name), key, needed, "a list of names") };
        if names.is_empty() {
            continue;
        }
        let without = |schema: &Map<String, Value>| with_member(schema, "properties", json!({}), |properties| {
            properties[name.as_str()] = Value::Bool(false);
        });
        let with = |schema: &Map<String, Value>| with_member(schema, "required", json!([]), |required| {
            let list = required.as_array_mut().into_iter();
            list.for_each(|list| {
                for one in std::iter::once(&name.as_str()).chain(&names) {
                    if !list.iter().any(|known| known == one) {
                        list.push(json!(one));
                    }
                }
            });
        });
        choices = choices.iter().flat_map(|schema| [with(schema), without(schema)]).collect();
        // What is required cannot be left out.
        choices.retain(is_possible);
    }
    match choices.len() {
        1 => Ok(Value::Object(choices.remove(0))),
        _ => Ok(json!({ "anyOf": choices })),
    }
}

fn is_possible(schema: &Map<String, Value>) -> bool {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let properties = schema.get("properties").and_then(Value::as_object);
    required.filter_map(Value::as_str).all(|name| properties.and_then(|all| all.get(name)) != Some(&Value::Bool(false)))
}

/// The schema with a changed member, which is `otherwise` before where it has none.
fn with_member(schema: &Map<String, Value>, key: &str, otherwise: Value, change: impl Fn(&mut Value)) -> Map<String, Value> {
    let mut changed = schema.clone();
    change(changed.entry(key).or_insert(otherwise));
    changed
}

/// llguidance would begin a property of which no name is left: patterns that are found in declared names alone become
/// a part of what those hold, and there are no additional properties where no name is left for them.
fn finish_patterns(simple: &mut Map<String, Value>) {
    let Some(Value::Object(patterns)) = simple.get("patternProperties").cloned() else { return };
    let mut declared = match simple.get("properties") {
        Some(Value::Object(properties)) => properties.clone(),
        _ => Map::new(),
    };
    let required = simple.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<String> = declared.keys().cloned().collect();
    names.extend(required.filter(|name| !declared.contains_key(*name)).map(str::to_string));
    if patterns.len().saturating_mul(names.len()) > MAX_NAMES_COMPARED {
        return;
    }
    let mut left = Map::new();
    for (pattern, schema) in patterns {
        if !property_names::are_all_among(&pattern, &names) {
            left.insert(pattern, schema);
            continue;
        }
        for name in property_names::found_in(&pattern, &names) {
            let both = match declared.get(name) {
                Some(own) => json!({ "allOf": [own, schema] }),
                None => schema.clone(),
            };
            declared.insert(name.clone(), both);
        }
    }
    if !declared.is_empty() {
        simple.insert("properties".to_string(), Value::Object(declared));
    }
    if property_names::is_none_left(left.keys(), &names) {
        simple.insert("additionalProperties".to_string(), Value::Bool(false));
    }
    match left.is_empty() {
        true => simple.shift_remove("patternProperties"),
        false => simple.insert("patternProperties".to_string(), Value::Object(left)),
    };
}

/// Whether the only numbers that the types have are integers.
fn has_integers_alone(types: Option<&Value>) -> bool {
    let has = |name: &str| match types {
        Some(Value::Array(names)) => names.iter().any(|one| one == name),
        types => types.is_some_and(|one| one == name),
    };
    has("integer") && !has("number")
}

fn add_to_all(applied: &mut Map<String, Value>, schema: Value) {
    if let Some(list) = applied.entry("allOf").or_insert_with(|| json!([])).as_array_mut() {
        list.push(schema);
    }
}

fn finish_formats(simple: &mut Map<String, Value>, applied: &mut Map<String, Value>) {
    let Some(pattern) = simple.get("format").and_then(Value::as_str).and_then(own_format) else { return };
    simple.shift_remove("format");
    match simple.contains_key("pattern") {
        true => add_to_all(applied, json!({ "pattern": pattern })),
        false => simple.insert("pattern".to_string(), json!(pattern)).map_or((), drop),
    }
}

/// The next number of a finite one that is not 0, further from 0 (f64::next_up and next_down, which Rust has since 1.86).
fn away_from_zero(number: f64) -> f64 {
    f64::from_bits(number.to_bits() + 1)
}

/// The ranges that llguidance makes of bounds lack some decimals and have a bound that they exclude. Here they are
/// written so that they are right.
fn finish_ranges(simple: &mut Map<String, Value>, applied: &mut Map<String, Value>) {
    if has_integers_alone(simple.get("type")) {
        return;
    }
    let bound = |key: &str| simple.get(key).and_then(Value::as_f64);
    let [mut low, mut above] = [bound("minimum"), bound("exclusiveMinimum")];
    let [mut high, mut below] = [bound("maximum"), bound("exclusiveMaximum")];
    // An excluded integer is a part of its range, where that ends before the next one.
    if let Some(excluded) = above.filter(|value| *value >= 0.0 && value.fract() == 0.0) {
        let next = if excluded == 0.0 { LEAST_NUMBER } else { away_from_zero(excluded) };
        (low, above) = (Some(low.map_or(next, |value| value.max(next))), None);
    }
    if let Some(excluded) = below.filter(|value| *value <= 0.0 && value.fract() == 0.0) {
        let next = if excluded == 0.0 { -LEAST_NUMBER } else { away_from_zero(excluded) };
        (high, below) = (Some(high.map_or(next, |value| value.min(next))), None);
    }
    // Of a bound of 3.1925 the beginnings 3.1, 3.19 and 3.192 are missing.
    let holds = |value: f64| {
        low.is_none_or(|bound| value >= bound)
            && above.is_none_or(|bound| value > bound)
            && high.is_none_or(|bound| value <= bound)
            && below.is_none_or(|bound| value < bound)
    };
    let outer = [low, above].into_iter().flatten().filter(|value| *value < 0.0);
    let outer = outer.chain([high, below].into_iter().flatten().filter(|value| *value > 0.0));
    let missing: Vec<f64> = outer.flat_map(beginnings).filter(|value| holds(*value)).collect();

    let mut range = Map::new();
    for (key, value) in
        [("minimum", low), ("exclusiveMinimum", above), ("maximum", high), ("exclusiveMaximum", below)]
    {
        simple.shift_remove(key);
        if let Some(value) = value {
            range.insert(key.to_string(), json!(value));
        }
    }
    if missing.is_empty() {
        simple.extend(range);
        return;
    }
    if let Some(types) = simple.get("type") {
        range.insert("type".to_string(), types.clone());
    }
    add_to_all(applied, json!({ "anyOf": [range, { "enum": missing }] }));
}

/// The number with fewer decimals, cut.
fn beginnings(number: f64) -> Vec<f64> {
    let text = number.to_string();
    let Some(point) = text.find('.') else { return Vec::new() };
    (point + 2..text.len()).filter_map(|end| text[..end].parse().ok()).filter(|value| *value != 0.0).collect()
}

/// Each one is about four parts of rules at the place where all may come. Compiled, they would be refused without a
/// place, and later.
fn check_optional_properties(map: &Map<String, Value>, place: &str) -> Result<()> {
    let Some(properties) = map.get("properties").and_then(Value::as_object) else { return Ok(()) };
    if properties.len() <= MAX_OPTIONAL_PROPERTIES {
        return Ok(());
    }
    let required: HashSet<&str> =
        map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let optional = properties.keys().filter(|name| !required.contains(name.as_str())).count();
    if optional > MAX_OPTIONAL_PROPERTIES {
        return Err(format!(
            "at {}: {optional} properties may be left out; accepted: at most {MAX_OPTIONAL_PROPERTIES}",
            step(place, "properties")
        ));
    }
    Ok(())
}

/// A name may come twice in an object, which counts as two here and as one where the object is read.
fn check_names_that_repeat(map: &Map<String, Value>, place: &str) -> Result<()> {
    let Some(least) = map.get("minProperties").and_then(Value::as_u64) else { return Ok(()) };
    let required = map.get("required").and_then(Value::as_array).map_or(0, Vec::len) as u64;
    let is_open = map.get("additionalProperties") != Some(&Value::Bool(false)) || map.contains_key("patternProperties");
    match is_open && least > required + 1 {
        true => Err(format!(
            "at {place}: minProperties is {least}, and {required} properties are required; accepted: at most one more \
             than those, or additionalProperties false and no patternProperties"
        )),
        false => Ok(()),
    }
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_string())
}
